import type { Logger } from 'pino'
import { createErrorSender, type SendError } from './error-replies.ts'
import { createReplySender, type SendReply, writeReply } from './reply.ts'

export interface SenderOptions {
  readonly log: Logger
  /** As `ErrorSenderOptions`. */
  readonly overloadPauseMs?: number
}

/** How an application answers its requests. */
export interface Senders {
  readonly sendReply: SendReply
  readonly sendError: SendError
}

export function createSenders({ log, ...options }: SenderOptions): Senders {
  const sendBareError = createErrorSender({ log, sendReply: writeReply })
  const sendReply = createReplySender((error, request, response) => {
    // The reply itself failed to be sent, perhaps because of a header that middleware added.
    request.replyHeaders = undefined
    sendBareError(error, request, response)
  })
  return { sendReply, sendError: createErrorSender({ log, sendReply, ...options }) }
}
