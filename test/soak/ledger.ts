import { randomInt } from 'node:crypto'
import type { Problems } from './problems.ts'

/** What the clients know about one user. */
export interface Account {
  readonly email: string
  readonly createBody: string
  readonly idempotencyKey?: string | undefined
  readonly password?: string | undefined
  id?: number
  /** The names that it may have. More than one after a write with an unknown outcome; `undefined` for no user. */
  names: (string | undefined)[]
  /** Of its current version, while that is certain. */
  etag?: string | undefined
  updatedAt?: string | undefined
}

/** All that was acknowledged, and all that may have happened. */
export type Ledger = ReturnType<typeof createLedger>

export function createLedger(problems: Problems) {
  const accounts = new Map<string, Account>()
  const owners = new Map<number, string>()
  const free: Account[] = []
  let serial = 0
  return {
    accounts: accounts as ReadonlyMap<string, Account>,
    /** Those that nobody uses now. Add those to it that others may choose again. */
    free,
    /** The next number for names and addresses. */
    nextSerial: () => ++serial,
    /** Adds a user before it is created. */
    open: (account: Account) => accounts.set(account.email, account),
    /** Notes an acknowledged state. */
    settle: (
      account: Account,
      user: { readonly id: number; readonly name: string; readonly updated_at: string },
      etag: string | undefined,
    ) => {
      const owner = owners.get(user.id)
      if (owner !== undefined && owner !== account.email) {
        problems.note('an id was given out twice', `${user.id}: ${owner}, ${account.email}`)
      }
      if (account.id !== undefined && account.id !== user.id) {
        problems.note('a user has two ids', `${account.email}: ${account.id}, ${user.id}`)
      }
      owners.set(user.id, account.email)
      const { id, name, updated_at: updatedAt } = user
      Object.assign(account, { id, names: [name], updatedAt, etag })
    },
    /** Removes a user from those to choose from, so that nobody else changes it meanwhile. */
    take: (): Account | undefined => {
      if (free.length === 0) return undefined
      const index = randomInt(free.length)
      const taken = free[index]
      const last = free.pop()
      if (last !== undefined && index < free.length) free[index] = last
      return taken
    },
  }
}

/** Notes that the user may also have this name, or be gone. */
export function addPossible(account: Account, name: string | undefined): void {
  account.names.push(name)
  account.etag = undefined
  account.updatedAt = undefined
}

export function isCertain(account: Account): boolean {
  return account.names.length === 1
}
