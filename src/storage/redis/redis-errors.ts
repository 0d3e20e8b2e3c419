/** Redis cannot be used, and waiting will not help. The message completes a sentence that begins with its URL. */
export class UnusableRedis extends Error {}

const REFUSED = 'the server refuses this user or password'

const NO_DATABASE = 'the server has no database of this number'

/** What servers answer to wrong settings, by how the answer begins. */
const REFUSALS: Readonly<Record<string, string>> = {
  WRONGPASS: REFUSED,
  NOAUTH: REFUSED,
  'ERR invalid password': REFUSED,
  'ERR AUTH ': 'the server has no password for this user',
  'ERR Client sent AUTH': 'the server has no password',
  'ERR invalid DB index': NO_DATABASE,
  'ERR DB index is out of range': NO_DATABASE,
  'ERR SELECT is not allowed in cluster mode': 'a Redis Cluster has no database but 0',
}

/** The beginnings of codes of certificates that are not trusted. */
const CERTIFICATE_CODES = [
  'CERT_',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'HOSTNAME_MISMATCH',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'SELF_SIGNED_CERT',
  'UNABLE_TO_',
]

/** `error` as an `UnusableRedis` if waiting does not help, otherwise `undefined`. */
export function asUnusableRedis(error: unknown): UnusableRedis | undefined {
  if (error instanceof UnusableRedis) return error
  const { message = '', code = '' } = error as NodeJS.ErrnoException
  if (CERTIFICATE_CODES.some(beginning => code.startsWith(beginning))) {
    const why = `the certificate of the server is not trusted (${code}); NODE_EXTRA_CA_CERTS adds a private CA`
    return new UnusableRedis(why, { cause: error })
  }
  const answer = Object.keys(REFUSALS).find(beginning => message.startsWith(beginning))
  return answer === undefined ? undefined : new UnusableRedis(REFUSALS[answer], { cause: error })
}

/** Where Redis quotes what it was sent, which may be a password. */
const QUOTATION = /,? with args beginning with:.*/s

/** Why Redis does not count, for the log. */
export function reasonOf(error: unknown): string {
  const { message = '', code, errors } = error as NodeJS.ErrnoException & { errors?: unknown[] }
  // Where a name has several addresses, the message is empty.
  if (Array.isArray(errors) && errors.length > 0) return reasonOf(errors[0])
  return message.replace(QUOTATION, '') || code || String(error)
}
