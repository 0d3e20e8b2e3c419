import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findFreePort } from '../support/free-port.ts'
import { load } from '../support/load.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { MAIN, run, spawnService } from '../support/spawn-service.ts'
import { spawnTeam } from '../support/spawn-team.ts'
import { UNHURRIED } from '../support/unhurried.ts'
import { until } from '../support/until.ts'

const WORKERS = 4

const REQUESTS = 5000

/** Throws unless each line is an object of its own with the number of a process, and each request has one. */
function expectWhole(text: string): void {
  expect(text.endsWith('\n')).toBe(true)
  const lines = text
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line))
  const workers = new Set(lines.map(({ worker }) => worker))
  expect([...workers].filter(worker => !(worker >= 0 && worker <= WORKERS))).toEqual([])
  expect(lines.filter(({ worker }) => worker === 0).map(({ msg }) => msg)).toEqual([
    'starting',
    'listening',
    'stopping',
    'stopped',
  ])
  const serving = lines.filter(({ msg }) => msg === 'worker serves').map(({ worker }) => worker)
  expect(serving.sort()).toEqual([1, 2, 3, 4])
  expect(lines.filter(({ msg }) => msg === 'request')).toHaveLength(REQUESTS)
}

const loadOf = (port: number) =>
  load({ port, connections: 32, requests: REQUESTS, workload: 'read' })

test('the log has a whole line for each request under load, through a pipe', async () => {
  const team = await spawnTeam(WORKERS, { cwd: temporaryFolder() })
  await loadOf(team.port)
  team.process.kill('SIGTERM')
  expectWhole((await team.exited).stdout)
})

test('the log has a whole line for each request under load, in a file', async () => {
  const cwd = temporaryFolder()
  const path = join(cwd, 'log')
  const log = openSync(path, 'a')
  const port = await findFreePort()
  const { PATH } = process.env
  const env = { PATH, ...UNHURRIED, PORT: String(port), WORKERS: String(WORKERS) }
  const service = spawn(process.execPath, [MAIN, 'serve'], {
    ...{ cwd, env, stdio: ['ignore', log, 'inherit'] },
  })
  onTestFinished(() => {
    service.kill('SIGKILL')
  })
  closeSync(log)
  await until(() => readFileSync(path, 'utf8').includes('listening'))
  await loadOf(port)
  const ended = new Promise(resolve => service.once('close', resolve))
  service.kill('SIGTERM')
  expect(await ended).toBe(0)
  expectWhole(readFileSync(path, 'utf8'))
})

test.each(['info', 'error'])('PORT=0 is logged once, with LOG_LEVEL=%s', async level => {
  const env = { WORKERS: '2', LOG_LEVEL: level }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  expect((await fetch(`${service.url}/livez`)).status).toBe(200)
  service.process.kill('SIGTERM')
  const { code, stdout } = await service.exited
  const lines = stdout
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line))
  expect({ code, listening: lines.filter(({ msg }) => msg === 'listening') }).toEqual({
    code: 0,
    listening: [expect.objectContaining({ level: 'info', worker: 0, url: service.url })],
  })
})

test('WORKERS=auto serves with one worker for each core', async () => {
  const env = { WORKERS: 'auto' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  service.process.kill('SIGTERM')
  const { stdout } = await service.exited
  const serving = stdout.split('\n').filter(line => line.includes('worker serves'))
  // A single core needs no workers.
  const cores = availableParallelism()
  expect(serving).toHaveLength(cores === 1 ? 0 : cores)
})

test.each([
  [{ DATABASE_URL: ':memory:', WORKERS: '2' }, /^.*(?:WORKERS|DATABASE_URL) was /],
  [{ WORKERS: '0' }, /^.*WORKERS was "0"/],
  [{ WORKERS: '65' }, /^.*WORKERS was "65"/],
  [{ WORKERS: 'many' }, /^.*WORKERS was "many"/],
])('serve refuses %j', async (env, message) => {
  const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env, args: ['serve'] })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr.trim().split('\n')).toEqual([expect.stringMatching(message)])
})

test('a port in use is named once, whichever worker finds it in use', async () => {
  const first = await spawnService({ cwd: temporaryFolder() })
  const env = { WORKERS: '3', PORT: String(first.port) }
  const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env, args: ['serve'] })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr.trim().split('\n')).toEqual([
    expect.stringContaining(`PORT was "${first.port}", but it is in use`),
  ])
})
