import type { Logger } from 'pino'
import type { Operations } from '../../ops/management/operations-router.ts'

/**
 * A second signal within this time is an echo of the first: `npm start` forwards a Ctrl-C that the terminal has already
 * sent to this process.
 */
const SIGNAL_ECHO_MS = 500

export const STOP_SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** Signals that stop the process. */
export type Signals = ReturnType<typeof watchSignals>

/** From now on signals of these names no longer end the process. */
export function watchSignals(names: readonly NodeJS.Signals[]) {
  let firstAt: number | undefined
  let resolveFirst: (value: 'signal') => void
  let resolveSecond: (value: 'signal') => void
  const first = new Promise<'signal'>(resolve => {
    resolveFirst = resolve
  })
  const second = new Promise<'signal'>(resolve => {
    resolveSecond = resolve
  })
  const onSignal = () => {
    if (firstAt === undefined) {
      firstAt = performance.now()
      resolveFirst('signal')
    } else if (performance.now() - firstAt > SIGNAL_ECHO_MS) resolveSecond('signal')
  }
  return {
    first,
    /** The next signal that is not an echo of the first. */
    second,
    /** Restores the default action of the signals. */
    end: listen(names, onSignal),
  }
}

/** Returns a function that ends the listening. */
function listen(names: readonly NodeJS.Signals[], onSignal: () => void): () => void {
  for (const name of names) process.on(name, onSignal)
  return () => {
    for (const name of names) process.off(name, onSignal)
  }
}

type Reload = Operations['reloadLimits']

/** The reloads that SIGHUP and operators ask for. */
export type Reloads = ReturnType<typeof watchReloads>

/** Reloads one at a time, also on signals of these names, so that the newest file is in force at the end. */
export function watchReloads(names: readonly NodeJS.Signals[]) {
  let begin: (reload: Reload) => void = () => {}
  const begun = new Promise<Reload>(resolve => {
    begin = resolve
  })
  let reading: Promise<unknown> = begun

  function request(): ReturnType<Reload> {
    const result = reading.then(async () => (await begun)())
    // A reload that throws must not keep the next one from beginning.
    reading = result.catch(() => {})
    return result
  }

  // Whatever reloads has logged its failure, which must not end the process.
  const onSignal = () => void request().catch(() => {})
  return {
    /** Sets what reloads. Reloads that were asked for before begin now. */
    begin,
    /** Reloads as those signals do, after all reloads that were asked for before. */
    request,
    /** Restores the default action of the signals. */
    end: listen(names, onSignal),
  }
}

/** Resolves at the first uncaught exception, which is logged and does not end the process by itself. */
export function awaitCrash(log: Logger): Promise<'crash'> {
  return new Promise(resolve => {
    process.once('uncaughtException', err => {
      log.fatal({ err }, 'crashed')
      resolve('crash')
    })
  })
}
