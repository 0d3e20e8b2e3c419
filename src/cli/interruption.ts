import { constants } from 'node:os'

/** The wish of an operator or of the system that a command ends. */
export interface Interruption {
  readonly signal: AbortSignal
  /** 128 and the number of the signal that came, as shells have it. */
  exitCode(): number
  /** Leaves the signals to their defaults again. */
  end(): void
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** A second signal ends the process as it does by default. */
export function watchInterruption(): Interruption {
  const controller = new AbortController()
  let exitCode = 0
  const onSignal = (name: (typeof SIGNALS)[number]) => {
    exitCode = 128 + constants.signals[name]
    controller.abort()
    end()
  }
  const end = () => {
    for (const name of SIGNALS) process.off(name, onSignal)
  }
  for (const name of SIGNALS) process.on(name, onSignal)
  return { signal: controller.signal, exitCode: () => exitCode, end }
}
