import type { Logger } from 'pino'
import type { IndexingProgress } from '../storage/storage.ts'

/** Writes to the log how far the index of words is. */
export function logIndexing(log: Logger, { isComplete, through, lastId }: IndexingProgress): void {
  if (isComplete) log.info('index of words is complete')
  else log.info({ through, lastId }, 'index of words is being built, lists with q are answered 503')
}
