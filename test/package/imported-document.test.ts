import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { installPackages } from '../support/packed-package.ts'

const PROGRAM = fileURLToPath(new URL('importers/requests.mjs', import.meta.url))

const IMPORTERS = ['openapi-to-postmanv2@6.3.3', '@usebruno/converters@0.23.0']

interface Imported {
  readonly from: string
  readonly method: string
  readonly path: string
  readonly query: readonly [string, string][]
  readonly headers: readonly [string, string][]
  readonly body?: string
}

test('what Postman and Bruno make of the document, sent once, is answered, unless a user is not there', async () => {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'package.json'), '{}')
  await installPackages(folder, ...IMPORTERS)
  const { http } = await openTestApp()
  writeFileSync(join(folder, 'openapi.json'), (await http.get('/openapi.json').expect(200)).text)
  const options = { cwd: folder, encoding: 'utf8' } as const
  const lines = execFileSync(process.execPath, [PROGRAM, 'openapi.json'], options)
    .trim()
    .split('\n')
  const requests = lines.map(line => JSON.parse(line) as Imported)
  for (const from of ['Postman', 'Bruno']) {
    const { url } = await openTestApp({ users: [newUserBody()] })
    const own = requests.filter(request => request.from === from)
    expect(own.length).toBeGreaterThan(10)
    for (const { method, path, query, headers, body } of own) {
      const response = await fetch(`${url}${path}?${new URLSearchParams(query)}`, {
        method,
        headers: Object.fromEntries(headers),
        ...(body !== undefined && { body }),
      })
      const isAnswered = response.ok || (response.status === 404 && path === '/users/1')
      expect(isAnswered, `${from}: ${method} ${response.url} is ${response.status}`).toBe(true)
    }
  }
})
