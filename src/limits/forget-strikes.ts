import type { Ban } from './ban-store.ts'
import type { GuardOptions } from './guarded-rule.ts'

/** Resets the count of a client when its ban begins or is lifted. A failure of the store is logged. */
export async function forgetStrikes(
  { rule, clientKey: key }: Pick<Ban, 'rule' | 'clientKey'>,
  { store, notices }: GuardOptions,
): Promise<void> {
  try {
    await store?.reset({ type: 'ban', rule, key })
  } catch (error) {
    notices.storeFailed(error)
  }
}
