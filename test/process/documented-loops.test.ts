import { execFile, spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import { promisify } from 'node:util'
import express from 'express'
import { expect, onTestFinished, test } from 'vitest'
import { createUserRecords } from '../../src/library.ts'
import { makeDatabaseIn } from '../support/databases.ts'
import { expectToGoOn, LOOPS, runLoop } from '../support/documented-loops.ts'
import { readAllUsers } from '../support/json-requests.ts'
import { listen } from '../support/listen.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canUseJq } from '../support/programs.ts'
import { firstBlock, readProject } from '../support/project.ts'

const canImportRequests = spawnSync('python3', ['-c', 'import requests']).status === 0

const LANGUAGES = [
  { language: 'js', command: [process.execPath, '--input-type=module', '-e'], canRun: true },
  { language: 'python', command: ['python3', '-c'], canRun: canImportRequests },
] as const

test.for(LANGUAGES)(
  'the loop of docs/lists.md in $language prints every user once, also behind a prefix',
  async ({ language, command: [program, ...args], canRun }, { skip }) => {
    skip(!canRun, 'python3 with `requests` is not installed')
    const DATABASE_URL = makeDatabaseIn(temporaryFolder(), { users: 2500 })
    const { app, close } = await createUserRecords({ DATABASE_URL })
    onTestFinished(close)
    const port = await listen(createServer(express().use('/accounts', app).use(app)))
    const url = `http://127.0.0.1:${port}`
    const emails = [...(await readAllUsers(url)).values()].map(line => JSON.parse(line).email)
    expect(emails).toHaveLength(2500)
    for (const address of [url, `${url}/accounts`]) {
      const loop = firstBlock(readProject('docs/lists.md'), language)
      const code = loop.replace('http://127.0.0.1:3000', address)
      const { stdout } = await promisify(execFile)(program, [...args, code])
      expect(stdout.trim().split('\n')).toEqual(emails)
    }
  },
)

const EVENT_SOURCE = import.meta.resolve('eventsource')

test.skipIf(!canUseJq)(
  'the loops of docs/changes.md go on over a kill, a stop and an absence behind a proxy, and begin again on 410',
  async () => {
    expect(LOOPS).toHaveLength(4)
    await expectToGoOn(LOOPS.map(loop => url => runLoop(loop, url, EVENT_SOURCE)))
  },
)
