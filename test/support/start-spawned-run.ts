import {
  cpSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** What the program reads beside `dist`. */
const LINKED = ['migrations', 'pages', 'node_modules', 'package.json']

/** Provides the tests of a project with a built program whose clocks they can set. Prints which tests were skipped. */
export default function startSpawnedRun(project: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'user-records-program-'))
  const dist = join(folder, 'dist')
  cpSync(join(ROOT, 'dist'), dist, { recursive: true })
  for (const name of LINKED) symlinkSync(join(ROOT, name), join(folder, name))
  const clocks = join(dist, 'wiring', 'clocks.js')
  renameSync(clocks, join(dist, 'wiring', 'real-clocks.js'))
  cpSync(fileURLToPath(new URL('file-clocks.mjs', import.meta.url)), clocks)
  const skipsPath = join(folder, 'skips')
  writeFileSync(skipsPath, '')
  const env = project.config.provide.spawnedEnv ?? {}
  project.provide('spawned', { main: join(dist, 'main.js'), env, skipsPath })
  return () => {
    printSkips(project.name, readFileSync(skipsPath, 'utf8'))
    rmSync(folder, { recursive: true, force: true })
  }
}

function printSkips(project: string, text: string): void {
  const reasons = text.split('\n').slice(0, -1)
  const counts = new Map<string, number>()
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  console.log(`${project}: ${reasons.length} tests skipped`)
  for (const [reason, count] of counts) console.log(`  ${count}: ${reason}`)
}
