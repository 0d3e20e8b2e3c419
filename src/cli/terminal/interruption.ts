import { constants } from 'node:os'

/** A request by an operator or the system to end a command. */
export interface Interruption {
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
  /** 128 plus the number of the signal, as in shells; 0 if none came. */
  exitCode(): number
  /** Restores the default action of both signals. */
  end(): void
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Catches one SIGINT or SIGTERM. A second signal ends the process, which is the default action. */
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
