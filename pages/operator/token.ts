import { byId } from './dom.ts'

const KEY = 'management-token'

/** The token of this tab; `undefined` if none was given. */
export function readToken(): string | undefined {
  return sessionStorage.getItem(KEY) ?? undefined
}

export interface TokenDialog {
  /** Asks for a token, unless that is happening already. */
  ask(): void
  /** To be called when an answer shows that the token counts, or that none is needed. */
  accept(): void
}

/**
 * The dialog that asks for the token, and the button beside the state of the connection, which forgets it.
 * `onToken` is called with each change.
 */
export function createTokenDialog(onToken: () => void): TokenDialog {
  const dialog = byId<HTMLDialogElement>('token-dialog')
  const input = byId<HTMLInputElement>('token')
  const button = byId<HTMLButtonElement>('token-button')
  const error = byId('token-error')
  let isLocked = false

  function showButton(): void {
    const hasToken = readToken() !== undefined
    button.hidden = !isLocked && !hasToken
    button.textContent = isLocked ? 'Enter the token…' : 'Forget the token'
  }

  function open(): void {
    error.textContent = readToken() === undefined ? '' : 'The service does not accept this token.'
    sessionStorage.removeItem(KEY)
    input.value = ''
    if (!dialog.open) dialog.showModal()
    input.focus()
  }

  byId('token-form').addEventListener('submit', event => {
    event.preventDefault()
    sessionStorage.setItem(KEY, input.value.trim())
    input.value = ''
    dialog.close()
    onToken()
  })
  dialog.querySelector('.cancel')?.addEventListener('click', () => dialog.close())
  button.addEventListener('click', () => {
    if (isLocked) open()
    else {
      sessionStorage.removeItem(KEY)
      showButton()
      onToken()
    }
  })

  return {
    ask: () => {
      isLocked = true
      if (!dialog.open) open()
      showButton()
    },
    accept: () => {
      isLocked = false
      showButton()
    },
  }
}
