import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { createPostgresCluster } from '../support/postgres-cluster.ts'
import { canStartClusters, findPostgresBinaries } from '../support/programs.ts'
import { PROJECT, readProject } from '../support/project.ts'
import { MAIN } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const MOVE = '3. PostgreSQL'

interface Step {
  /** The heading above it. */
  readonly section: string
  readonly command: string
  /** What the block after the command shows, if there is one. */
  readonly shown?: string | undefined
}

interface Surroundings {
  /** Stands for `data/`. */
  readonly folder: string
  readonly env: NodeJS.ProcessEnv
}

// Many commands, one after the other, are slow on a busy machine.
vi.setConfig({ testTimeout: 600_000 })

/** The commands of a page in their order, with the block that comes right after them; both may be indented. */
function readSteps(file: string): Step[] {
  const steps = readProject(file).matchAll(
    /^#+ (.+)$|^( *)```sh\n([\s\S]*?)^ *```\n(?:\n```(?:json|text)\n([\s\S]*?)^```\n)?/gm,
  )
  let section = ''
  return Array.from(steps).flatMap(([, heading, indent = '', command, shown]) => {
    section = heading ?? section
    if (command === undefined) return []
    const unindented = command.replaceAll(new RegExp(`^${indent}`, 'gm'), '').trim()
    return [{ section, command: unindented, shown: shown && withoutTimes(shown) }]
  })
}

function withoutTimes(text: string): string {
  return text.trim().replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
}

function surroundings(more: NodeJS.ProcessEnv = {}, path: string[] = []): Surroundings {
  const folder = temporaryFolder()
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  // The last test has the real one, which takes seconds each time.
  const npx = `#!/bin/sh\nshift\nexec "${process.execPath}" "${MAIN}" "$@"\n`
  writeFileSync(join(bin, 'npx'), npx, { mode: 0o755 })
  const PATH = [bin, ...path, process.env.PATH].join(delimiter)
  const DATABASE_URL = join(folder, 'users.db')
  return {
    folder,
    env: { ...process.env, PATH, PORT: '0', DATABASE_URL, LOG_LEVEL: 'info', ...more },
  }
}

/** Runs a command that ends with `npm start`, until its service listens. */
async function start(script: string, env: NodeJS.ProcessEnv) {
  // In a group of its own, because a signal to the shell does not reach the service.
  const shell = spawn('bash', ['-ec', script], {
    ...{ cwd: PROJECT, env, detached: true },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const closed = once(shell, 'close')
  const stop = async () => {
    if (shell.exitCode === null && shell.pid !== undefined) process.kill(-shell.pid, 'SIGTERM')
    await closed
  }
  onTestFinished(stop)
  let log = ''
  shell.stdout.on('data', chunk => {
    log += chunk
  })
  const url = await until(() => {
    if (shell.exitCode !== null) throw new Error(`${script} ended: ${log}`)
    return /"url":"([^"]+)"/.exec(log)?.[1]
  })
  return { url, stop }
}

/** Runs the steps as somebody who types them, with one service at a time. Returns the output of each. */
async function follow(steps: readonly Step[], { folder, env }: Surroundings): Promise<string[]> {
  let service: Awaited<ReturnType<typeof start>> | undefined
  const outputs: string[] = []
  for (const { command } of steps) {
    const script = command
      .replaceAll('http://127.0.0.1:3000', service?.url ?? 'http://127.0.0.1:3000')
      .replaceAll('data/', `${folder}/`)
      .replace('-o users.csv', `-o ${folder}/users.csv`)
      .replace(/(?<=MANAGEMENT_PORT=)\d+/, '0')
      // Whoever runs this test has installed and built before.
      .replace('npm ci && ', '')
    if (command.endsWith('npm start')) {
      await service?.stop()
      service = await start(script, env)
      outputs.push('')
    } else {
      const options = { cwd: PROJECT, env }
      const { stdout } = await promisify(execFile)('bash', ['-c', script], options)
      outputs.push(withoutTimes(stdout))
    }
  }
  return outputs
}

test('README.md shows what its commands do, and so does what it refers to', async () => {
  const pages = ['README.md', 'docs/users.md', 'docs/lists.md', 'docs/import-and-export.md']
  const steps = pages.flatMap(readSteps).filter(({ section }) => section !== MOVE)
  expect(steps[0]?.command).toBe('npm ci && npm start')
  expect(steps.filter(({ shown }) => shown !== undefined).length).toBeGreaterThan(5)

  const outputs = await follow(steps, surroundings())

  for (const [index, { command, shown }] of steps.entries()) {
    if (shown !== undefined) expect(outputs[index], command).toBe(shown)
  }
  const output = outputs.join('\n')
  expect(output).toContain('HTTP/1.1 204 No Content')
  expect(outputs.at(-1)).toContain('1 row, 0 created, 1 skipped')
})

test.skipIf(!canStartClusters)('README.md shows how users move to PostgreSQL', async () => {
  const cluster = await createPostgresCluster()
  onTestFinished(() => cluster.remove())
  const variables = { PGHOST: '127.0.0.1', PGPORT: String(cluster.port), PGUSER: 'postgres' }
  const steps = readSteps('README.md')
  const create = steps.find(({ command }) => command.includes('"name": "Ann"'))
  const list = steps.find(({ command }) => command.endsWith(' http://127.0.0.1:3000/users'))
  const move = steps.filter(({ section }) => section === MOVE)
  if (create === undefined || list === undefined) throw new Error('README.md has changed')
  const first = { section: MOVE, command: 'npm start' }

  const at = surroundings(variables, [findPostgresBinaries() ?? ''])
  const outputs = await follow([first, create, ...move, list], at)

  expect(move).toHaveLength(1)
  expect(outputs.at(-1)).toBe(list.shown)
})

test('the first npx in a checkout leaves what is built as it is', async () => {
  const before = statSync(MAIN).mtimeMs
  const args = ['--cache', temporaryFolder(), 'user-records-service', '--version']
  const { stdout } = await promisify(execFile)('npx', args, { cwd: PROJECT })
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  expect(statSync(MAIN).mtimeMs).toBe(before)
})
