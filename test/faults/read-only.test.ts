import { chmodSync, chownSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { fillWithUsers } from '../support/fill-with-users.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canRunAsNobody } from '../support/other-user.ts'
import { run, spawnService } from '../support/spawn-service.ts'
import { isRoot, NOBODY, owner } from '../support/unprivileged-user.ts'

async function folderOfOwner() {
  const cwd = temporaryFolder()
  const data = join(cwd, 'data')
  const file = join(data, 'users.db')
  await fillWithUsers(file, 1)
  for (const path of [cwd, data, file]) {
    if (path !== file) chmodSync(path, 0o755)
    if (isRoot) chownSync(path, NOBODY, NOBODY)
  }
  return { cwd, data, file }
}

test
  .skipIf(!canRunAsNobody)
  .each<{ what: string; change: (paths: { data: string; file: string }) => void }>([
    { what: 'a file', change: ({ file }) => chmodSync(file, 0o444) },
    { what: 'a folder', change: ({ data }) => chmodSync(data, 0o555) },
  ])(
  '$what without write permission is rejected at startup, and the error says what to do',
  async ({ change }) => {
    const { cwd, ...paths } = await folderOfOwner()
    change(paths)
    const { code, stderr } = await run({ cwd, env: { PORT: '0' }, ...owner })
    chmodSync(paths.data, 0o755)
    expect([code, stderr.trimEnd().split('\n').length]).toEqual([1, 1])
    expect(stderr).toMatch(/DATABASE_URL.*it cannot be written: give the user of this process/)
  },
)

test.skipIf(!canRunAsNobody)(
  'a file that becomes read-only while in use is served as before',
  async () => {
    const { cwd, file } = await folderOfOwner()
    const service = await spawnService({ cwd, ...owner })
    chmodSync(file, 0o444)
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
    expect((await ask(service, 'GET /users/2')).status).toBe(200)
  },
)
