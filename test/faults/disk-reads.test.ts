import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { startOnFailingDisk, whyNoFailingDisk } from '../support/failing-disk.ts'
import { report } from '../support/faults.ts'
import { fillWithUsers } from '../support/fill-with-users.ts'
import { ask, expectUnavailable, timeUntil } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { until } from '../support/until.ts'

const reason = whyNoFailingDisk()
if (reason !== undefined) console.log(`test/faults/disk-reads.test.ts is skipped: ${reason}`)

/** More users than the pages that the service keeps in memory can hold. */
const MANY_USERS = 40_000

test.skipIf(reason !== undefined)(
  'when the disk fails to read, requests for pages in memory are served, others get 503, and all are served afterwards',
  async () => {
    const cwd = temporaryFolder()
    await fillWithUsers(join(cwd, 'data', 'users.db'), MANY_USERS)
    const { disk, service } = await startOnFailingDisk(cwd)
    expect((await ask(service, 'GET /users/1')).status).toBe(200)
    disk.fail({ reads: 'EIO' })
    const far = `/users/${MANY_USERS - 1000}`
    expect((await ask(service, 'GET /users/1')).status).toBe(200)
    expectUnavailable(await ask(service, `GET ${far}`))
    expectUnavailable(await ask(service, `PUT ${far}`, { user: { name: 'New' } }))
    expectUnavailable(await ask(service, 'GET /users?sort=-name&per_page=1000'))
    expect((await ask(service, 'GET /users/1')).status).toBe(200)
    expect((await ask(service, 'GET /livez')).status).toBe(200)
    const isLogged = () => service.stdout().includes('database is damaged or unreadable')
    await until(isLogged)
    disk.work()
    const recoveryMs = await timeUntil(
      async () => (await ask(service, `GET ${far}`)).status === 200,
    )
    report('a disk that fails to read', { recoveryMs })
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
  },
)
