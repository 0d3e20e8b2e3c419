/**
 * A second signal within this time is an echo of the first: `npm start` forwards a Ctrl-C that the terminal has already
 * sent to this process.
 */
const SIGNAL_ECHO_MS = 500

/** Signals that stop the process: SIGTERM and SIGINT. */
export interface Signals {
  readonly first: Promise<'signal'>
  /** The next signal that is not an echo of the first. */
  readonly second: Promise<'signal'>
}

/** From now on SIGTERM and SIGINT no longer end the process. */
export function watchSignals(): Signals {
  let firstAt: number | undefined
  let resolveFirst: (value: 'signal') => void
  let resolveSecond: (value: 'signal') => void
  const first = new Promise<'signal'>(resolve => {
    resolveFirst = resolve
  })
  const second = new Promise<'signal'>(resolve => {
    resolveSecond = resolve
  })
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      if (firstAt === undefined) {
        firstAt = performance.now()
        resolveFirst('signal')
      } else if (performance.now() - firstAt > SIGNAL_ECHO_MS) resolveSecond('signal')
    })
  }
  return { first, second }
}

/** The reloads that SIGHUP asks for. */
export interface Reloads {
  /** Sets what reloads. Signals that came before have waited for it. */
  begin(reload: () => Promise<void>): void
}

/** On SIGHUP, reloads one at a time, so that the newest file is in force at the end. */
export function watchReloads(): Reloads {
  let begin: (reload: () => Promise<void>) => void = () => {}
  const begun = new Promise<() => Promise<void>>(resolve => {
    begin = resolve
  })
  let reading = Promise.resolve()
  process.on('SIGHUP', () => {
    reading = reading.then(async () => (await begun)())
  })
  return { begin }
}
