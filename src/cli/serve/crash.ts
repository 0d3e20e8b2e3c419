import type { Logger } from 'pino'

/** Resolves at the first uncaught exception, which is logged and does not end the process by itself. */
export function awaitCrash(log: Logger): Promise<'crash'> {
  return new Promise(resolve => {
    process.once('uncaughtException', err => {
      log.fatal({ err }, 'crashed')
      resolve('crash')
    })
  })
}
