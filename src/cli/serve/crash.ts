import type { Logger } from 'pino'

/** Resolves at the first uncaught exception, which it logs. From now on none ends the process by itself. */
export function awaitCrash(log: Logger): Promise<'crash'> {
  return new Promise(resolve => {
    process.once('uncaughtException', err => {
      log.fatal({ err }, 'crashed')
      resolve('crash')
    })
  })
}
