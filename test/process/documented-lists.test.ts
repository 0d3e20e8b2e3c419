import { execFile, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { makeDatabaseIn } from '../support/databases.ts'
import { readAllUsers } from '../support/json-requests.ts'
import { listen } from '../support/listen.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { firstBlock } from '../support/packed-package.ts'
import { spawnService } from '../support/spawn-service.ts'

const PAGE = readFileSync(new URL('../../docs/lists.md', import.meta.url), 'utf8')

const PREFIX = '/accounts'

const canImportRequests = spawnSync('python3', ['-c', 'import requests']).status === 0

const LANGUAGES = [
  { language: 'js', command: [process.execPath, '--input-type=module', '-e'], canRun: true },
  { language: 'python', command: ['python3', '-c'], canRun: canImportRequests },
] as const

/** A proxy that removes a prefix from paths. Returns its address. */
async function startPrefixProxy(port: number): Promise<string> {
  const server = createServer(({ method, url = '', headers }, response) => {
    const path = url.slice(PREFIX.length)
    const sent = { ...headers, 'X-Forwarded-Prefix': PREFIX }
    request({ port, method, path, headers: sent }, answer => {
      response.writeHead(answer.statusCode ?? 0, answer.headers)
      answer.pipe(response)
    }).end()
  })
  const own = await listen(server)
  onTestFinished(() => server.closeAllConnections())
  return `http://127.0.0.1:${own}${PREFIX}`
}

test.for(LANGUAGES)(
  'the loop of docs/lists.md in $language prints every user once, also behind a prefix',
  async ({ language, command: [program, ...args], canRun }, { skip }) => {
    skip(!canRun, 'python3 with `requests` is not installed')
    const cwd = temporaryFolder()
    makeDatabaseIn(cwd, { users: 2500 })
    const { url, port } = await spawnService({ cwd, env: { TRUST_PROXY: '1' } })
    const emails = [...(await readAllUsers(url)).values()].map(line => JSON.parse(line).email)
    expect(emails).toHaveLength(2500)
    for (const address of [url, await startPrefixProxy(port)]) {
      const code = firstBlock(PAGE, language).replace('http://127.0.0.1:3000', address)
      const { stdout } = await promisify(execFile)(program, [...args, code])
      expect(stdout.trim().split('\n')).toEqual(emails)
    }
  },
)
