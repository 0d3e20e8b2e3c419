import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run } from '../support/spawn-service.ts'

test('keys create of one name by three processes at once succeeds in one of them', async () => {
  const cwd = temporaryFolder()
  const create = ['keys', 'create', '--scope', 'users:read', '--name']
  await run({ cwd, args: [...create, 'other'] })
  const all = await Promise.all([1, 2, 3].map(() => run({ cwd, args: [...create, 'web'] })))
  expect(all.map(({ code }) => code).toSorted()).toEqual([0, 1, 1])
  const { stdout } = await run({ cwd, args: ['keys', 'list'] })
  expect(stdout.match(/^web /gm)).toHaveLength(1)
})
