import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'

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
