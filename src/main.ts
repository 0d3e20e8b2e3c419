#!/usr/bin/env node

// The kernel drops a signal for the process with the id 1, as in a container, unless there is a listener. This one does what the
// default action does for others, and only while nothing else listens.
if (process.pid === 1) {
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, (_name: string, number: number) => {
      if (process.listenerCount(name) === 1) process.exit(128 + number)
    })
  }
}

// Not static imports, which would be loaded first.
const { closeSync } = await import('node:fs')
const { isatty } = await import('node:tty')
const terminals = [0, 1, 2].filter(isatty)
const { runCommandLine } = await import('./cli/command-line.ts')
const exitCode = await runCommandLine(process.argv.slice(2), process.env, process)
// At its end, Node restores the settings of terminals, and crashes at one that has gone but is open.
for (const fd of terminals) if (!isatty(fd)) closeSync(fd)
process.exit(exitCode)
