import { isApiKey } from './api-key.ts'

/** What `isApiKeyName` asks for, as the end of a sentence that begins with "it may be". */
export const API_KEY_NAME_RULE =
  '1 to 64 letters, digits and any of . _ -, of which the first is a letter or a digit'

/** Names go into log lines, metrics and shells as they are. */
const FORM = /^[0-9A-Za-z][\w.-]{0,63}$/

/** Whether a key may have this name. A key itself, given in place of a name by mistake, is not one: names are no secrets. */
export function isApiKeyName(text: string): boolean {
  return FORM.test(text) && !isApiKey(text)
}
