import { randomBytes } from 'node:crypto'
import type { SharedStatements, Storage } from './storage.ts'

const SELECT_KEY = `SELECT key FROM signing_keys WHERE name = $1`

const INSERT_UNLESS_THERE = `INSERT INTO signing_keys (name, key) VALUES ($1, $2) ON CONFLICT DO NOTHING`

/** Keys in the table `signing_keys` of either engine. One that is not there is created. */
export function createSigningKeys({ read, write }: SharedStatements): Storage['signingKey'] {
  return async name => {
    const select = () => read<[Buffer]>(SELECT_KEY, [name])
    let [row] = await select()
    if (row === undefined) {
      await write(INSERT_UNLESS_THERE, [name, randomBytes(32)])
      // Another process may have been faster.
      ;[row] = await select()
    }
    return (row as [Buffer])[0]
  }
}
