import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'

const interruption = new AbortController()

/** Aborted by SIGINT or SIGTERM, which also ends the processes that run. A second one ends this process at once. */
export const interrupted = interruption.signal

for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => interruption.abort())

/**
 * Runs a command to its end, with its output in the file `log`.
 * Returns its exit code, or the signal that ended it. Throws if it could not be started.
 */
export async function attempt(command, args, { log, ...options }) {
  interrupted.throwIfAborted()
  const output = openSync(log, 'a')
  const child = spawn(command, args, {
    ...options,
    stdio: ['ignore', output, output],
    // In a group of its own, which is ended as a whole: npm waits for the compilers that it runs.
    detached: true,
  })
  closeSync(output)
  const stop = () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, 'SIGTERM')
  }
  interrupted.addEventListener('abort', stop)
  try {
    const [code, signal] = await once(child, 'exit')
    return signal ?? code
  } finally {
    interrupted.removeEventListener('abort', stop)
  }
}

/** The same for a command that must succeed. */
export async function run(command, args, options) {
  const result = await attempt(command, args, options)
  if (result !== 0) throw new Error(`${command} ${args[0]} ended with ${result}: ${options.log}`)
}
