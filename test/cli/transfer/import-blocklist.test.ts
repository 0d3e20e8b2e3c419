import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runCommand } from '../../support/run-command.ts'
import { folderWith, importing, ndjson, rejectsIn, usersIn } from '../../support/transfer.ts'

const TOO_COMMON = { password: ['is too common'] }

const ENV = { PASSWORD_BLOCKLIST: 'common.txt' }
const ROWS = [
  { name: 'Ann', email: 'ann@x.co', password: 'Correct Horse' },
  { name: '', email: 'bob', password: 'correct horse' },
  { name: 'Cid', email: 'cid@x.co', password: 'another horse' },
  { name: 'Dan', email: 'dan@x.co' },
  { name: 'Eve', email: 'eve@x.co', password_digest: '$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0' },
]

test.each([[[]], [['--dry-run']]])('import rejects rows with a common password: %j', async args => {
  const cwd = folderWith(ndjson(ROWS))
  writeFileSync(join(cwd, 'common.txt'), 'correct horse\n')
  const options = ['import', 'users.ndjson', '--rejects', 'rejects.ndjson', ...args]
  const { code, stderr } = await runCommand({ cwd, env: ENV, args: options })
  expect([code, stderr]).toEqual([3, expect.stringMatching(/^columns: .+\n$/)])
  expect(rejectsIn(cwd)).toEqual([
    { line: 1, errors: TOO_COMMON },
    { line: 2, errors: { name: ["can't be blank"], email: ['is invalid'], ...TOO_COMMON } },
  ])
  if (args.length === 0) expect(usersIn(cwd).map(({ name }) => name)).toEqual(['Cid', 'Dan', 'Eve'])
})

test('import ends with a line if the list cannot be used, before it makes a database', async () => {
  const cwd = folderWith(ndjson(ROWS))
  const refused = await runCommand({ cwd, env: ENV, args: ['import', 'users.ndjson'] })
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringMatching(/^PASSWORD_BLOCKLIST was "common.txt", but there is no such file; .*\n$/),
  ])
  expect(existsSync(join(cwd, 'data'))).toBe(false)
  expect(await importing(cwd, 'users.ndjson')).toMatchObject({ code: 3 })
})
