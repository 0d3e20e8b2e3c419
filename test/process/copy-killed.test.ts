import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { copiedContent, makeCopySource } from '../support/copy-databases.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { sharedFolder } from '../support/shared-folder.ts'
import { run, signalled } from '../support/spawn-service.ts'

/** Enough for a signal to come in the middle. */
const USERS = 80_000

const folder = sharedFolder()
const source = () => join(folder(), 'from.db')

/** What a copy of the source must contain. */
let content: ReturnType<typeof copiedContent>

beforeAll(async () => {
  await makeCopySource(source(), USERS)
  content = copiedContent(source())
})

test.each([
  ['SIGINT', 130],
  ['SIGKILL', null],
] as const)(
  'copy starts over after %s, and no service starts before it is complete',
  async (signal, code) => {
    const cwd = temporaryFolder()
    const to = join(cwd, 'to.db')
    const args = ['copy', '--from', source(), '--to', 'to.db']
    const begun = () => existsSync(`${to}-wal`) && statSync(`${to}-wal`).size > 2_000_000
    expect(await signalled(signal, { cwd, args, begun })).toEqual({
      code,
      stdout: '',
      stderr: code === null ? '' : 'interrupted: run the same command again to start over\n',
    })
    const env = { DATABASE_URL: 'to.db' }
    for (const args of [['serve'], ['export'], ['migrate'], ['bans', 'list']]) {
      const stderr = expect.stringContaining('unfinished copy')
      expect(await run({ cwd, env, args })).toMatchObject({ code: 1, stderr })
    }
    const done = await run({ cwd, args: [...args, '--json'] })
    expect(done).toMatchObject({ code: 0 })
    expect(JSON.parse(done.stdout)).toMatchObject({ users: USERS - 2 })
    expect(isDeepStrictEqual(copiedContent(to), content)).toBe(true)
    expect(await run({ cwd, env, args: ['check'] })).toMatchObject({ code: 0 })
  },
)
