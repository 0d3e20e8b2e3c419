import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/**
 * Starts a process that cleans up after this one, however this one ends: its input ends with it. `script` is run with `path`
 * as `$1`, and reads its input to the end first. Call the result to end the input now.
 */
export function cleanUpAfter(script: string, path: string): () => void {
  const watcher = spawn('/bin/sh', ['-c', script, 'sh', path], {
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  const input = watcher.stdin as Socket
  watcher.unref()
  input.unref()
  return () => input.end()
}

/** Kills a process when this one ends, however it does. */
export function endWithTests(child: ChildProcess): void {
  child.once('exit', cleanUpAfter('cat > /dev/null; kill -KILL "$1"', String(child.pid)))
}

/** Ends a process with the test, and also if this process ends before. */
export function endWithTest(child: ChildProcess): void {
  endWithTests(child)
  onTestFinished(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
}
