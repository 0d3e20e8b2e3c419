import { randomBytes } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient } from '@redis/client'
import type { TestProject } from 'vitest/node'
import { cleanUpAfter } from './clean-up-after.ts'
import { startRedis } from './redis-server.ts'
import { TEST_REDIS_URL } from './redis-settings.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** What the program reads beside `dist`. */
const LINKED = ['migrations', 'pages', 'node_modules', 'package.json']

/** Waits for the end of its input, then ends the services that are left and deletes the folder. */
const WATCH = `
  cat > /dev/null
  while read -r id; do
    case "$(ps -o args= -p "$id")" in *"$1"*) kill -KILL "$id" ;; esac
  done < "$1/processes"
  rm -rf "$1"`

/** Provides the tests of a project with a built program whose clocks they can set. Prints which tests were skipped. */
export default async function startSpawnedRun(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'user-records-program-'))
  const dist = join(folder, 'dist')
  cpSync(join(ROOT, 'dist'), dist, { recursive: true })
  for (const name of LINKED) symlinkSync(join(ROOT, name), join(folder, name))
  replaceModules(dist)
  const skipsPath = join(folder, 'skips')
  const processesPath = join(folder, 'processes')
  for (const path of [skipsPath, processesPath]) writeFileSync(path, '')
  const cleanUp = cleanUpAfter(WATCH, folder)
  const { spawnedEnv = {} } = project.config.provide
  const redis = spawnedEnv.CACHE_STORE === 'redis' ? await useRedis() : undefined
  const env = { ...spawnedEnv, ...redis?.env }
  project.provide('spawned', { main: join(dist, 'main.js'), env, skipsPath, processesPath })
  return async () => {
    await redis?.close()
    printSkips(project.name, readFileSync(skipsPath, 'utf8'))
    cleanUp()
  }
}

/** Modules of the program, each with what takes its place, and the name under which that finds the real one. */
const REPLACED = [
  ['wiring/clocks.js', 'file-clocks.mjs', 'wiring/real-clocks.js'],
  ['waiting/patience.js', 'patient-waiting.mjs', 'waiting/real-patience.js'],
  ['storage/sqlite/writer/writer-thread.js', 'clocked-writer-thread.mjs', undefined],
] as const

function replaceModules(dist: string): void {
  for (const [module, file, realName] of REPLACED) {
    if (realName !== undefined) renameSync(join(dist, module), join(dist, realName))
    cpSync(besides(file), join(dist, module))
  }
}

/** The server that TEST_REDIS_URL names, otherwise one of this run. */
async function useRedis() {
  const prefix = `user-records-test-${randomBytes(6).toString('hex')}-`
  const server = TEST_REDIS_URL === undefined ? await startRedis() : undefined
  const url = server?.url ?? (TEST_REDIS_URL as string)
  return {
    env: { REDIS_URL: url, REDIS_PREFIX: prefix },
    close: async () => {
      if (server === undefined) await deleteKeys(url, prefix)
      else await server.remove()
    },
  }
}

async function deleteKeys(url: string, prefix: string): Promise<void> {
  const client = await createClient({ url, RESP: 2 }).connect()
  for await (const keys of client.scanIterator({ MATCH: `${prefix}*`, COUNT: 1000 })) {
    if (keys.length > 0) await client.del(keys)
  }
  client.destroy()
}

function besides(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url))
}

function printSkips(project: string, text: string): void {
  const reasons = text.split('\n').slice(0, -1)
  const counts = new Map<string, number>()
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  console.log(`${project}: ${reasons.length} tests skipped`)
  for (const [reason, count] of counts) console.log(`  ${count}: ${reason}`)
}
