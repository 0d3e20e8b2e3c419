import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { createRandom, inForm, SEED } from '../support/faults.ts'
import { folderWith, importing, ndjson, usersIn } from '../support/transfer.ts'
import { createDice, type Dice } from './user-steps.ts'

const FILES = inForm({ short: 10, long: 1000 })

const DIGESTS = ['correct horse', 'another horse'].map(password => hashBcrypt(password, 4))

/** Few ids and e-mails, so that rows conflict with users, and with each other, in every way. */
function someRows({ below, in100, pick }: Dice, most: number) {
  return Array.from({ length: 1 + below(most) }, () => ({
    name: in100(5) ? '' : pick(['Ann', 'Bea', 'Cid']),
    email: `${pick(['a', 'A', 'b', 'c', 'd'])}@example.com`,
    ...(in100(50) && { id: 1 + below(9) }),
    ...(in100(20) && pick([{ password_digest: pick(DIGESTS) }, { password: null }])),
    ...(in100(10) && { password: 'correct horse', password_digest: undefined }),
  }))
}

/** The counts and the rejected rows. */
async function importIn(cwd: string, ...args: string[]) {
  const all = ['users.ndjson', '--rejects', 'rejects.ndjson', ...args]
  const { code, stdout } = await importing(cwd, ...all)
  const counts = stdout.replace(/^dry run.*?: /, '').replace(/;.*/s, '')
  return { code, counts, rejected: readFileSync(join(cwd, 'rejects.ndjson'), 'utf8') }
}

test.each(['skip', 'update'])(
  `a dry run predicts the import of ${FILES} random files, with --on-conflict %s (seed ${SEED})`,
  async policy => {
    const dice = createDice(createRandom())
    for (let file = 0; file < FILES; file++) {
      const tried = folderWith(ndjson(someRows(dice, 8)))
      await importIn(tried, '--on-conflict', 'skip')
      const database = new Database(join(tried, 'data', 'users.db'))
      // Their ids are never used again.
      if (dice.in100(50)) database.exec('DELETE FROM users WHERE id > 4')
      database.close()
      const rows = ndjson(someRows(dice, 12))
      writeFileSync(join(tried, 'users.ndjson'), rows)
      const done = folderWith('')
      cpSync(tried, done, { recursive: true })
      const before = usersIn(tried)
      const prediction = await importIn(tried, '--on-conflict', policy, '--dry-run')
      const context = `file ${file}: ${rows} into ${JSON.stringify(before)}`
      expect(usersIn(tried), context).toEqual(before)
      expect(prediction, context).toEqual(await importIn(done, '--on-conflict', policy))
    }
  },
)
