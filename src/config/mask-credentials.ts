import { POSTGRES_PARAMETERS } from './postgres-location.ts'

/**
 * The value of a setting with its credentials masked, cut after 200 characters. It hides too much rather than too little:
 * in a malformed URL, nobody can tell where a password ends.
 */
export function maskCredentials(value: string): string {
  const masked = withoutUserInfo(value)
  return masked.length > 200 ? `${masked.slice(0, 200)}…` : masked
}

function withoutUserInfo(url: string): string {
  const start = findAuthority(url)
  if (start === undefined) return withoutSecrets(url)
  const at = url.lastIndexOf('@')
  if (at < start) {
    return looksLikeUserInfo(url.slice(start)) ? `${url.slice(0, start)}***` : withoutSecrets(url)
  }
  // The last @ may also be within a password that is a parameter. Then the password goes on after it.
  const parameters = url.slice(start, at).split('&')
  const isInSecret = parameters.some(parameter => maskParameter(parameter) !== undefined)
  return `${url.slice(0, start)}***@${withoutSecrets(url.slice(at + 1), isInSecret)}`
}

/** Where the user and the host of a URL begin, also if the slashes before them are missing. */
function findAuthority(text: string): number | undefined {
  const scheme = /^(?!file:)[a-z][a-z0-9+.-]+:/i.exec(text)?.[0]
  if (scheme !== undefined) return scheme.length + (text.startsWith('//', scheme.length) ? 2 : 0)
  const slashes = text.indexOf('//')
  return slashes === -1 ? undefined : slashes + 2
}

/** Whether `user:password` is where the hosts should be, because the @ after it is missing or encoded. */
function looksLikeUserInfo(text: string): boolean {
  const [authority = ''] = text.split(/[/?#]/, 1)
  return authority.split(',').some(host => {
    const port = host.slice(host.lastIndexOf(']') + 1).split(':')[1] ?? ''
    return !/^\d*$/.test(port) || Number(port) > 65_535
  })
}

/** Masks parameters with a name such as `password`, and what may still belong to the value of one. */
function withoutSecrets(text: string, beginsInSecret = false): string {
  let isAfterSecret = beginsInSecret
  const parts = text.split('&').map((part, index) => {
    const masked = maskParameter(part)
    // A password with an & that is not encoded looks like more parameters.
    const isRest = isAfterSecret && ((index === 0 && beginsInSecret) || !isPostgresParameter(part))
    isAfterSecret ||= masked !== undefined
    return isRest ? '***' : (masked ?? part)
  })
  return parts.join('&')
}

function isPostgresParameter(part: string): boolean {
  return POSTGRES_PARAMETERS.some(name => part.startsWith(`${name}=`))
}

/** `name=***` if the name, which may be encoded, is that of a secret. */
function maskParameter(part: string): string | undefined {
  const pieces = part.split('=')
  const secret = pieces.slice(0, -1).findIndex(piece => isNameOfSecret(piece))
  return secret === -1 ? undefined : `${pieces.slice(0, secret + 1).join('=')}=***`
}

function isNameOfSecret(text: string): boolean {
  const name = text.split(/[^\w%]/).at(-1) ?? ''
  try {
    return /pass|pwd|secret|token|key/i.test(decodeURIComponent(name))
  } catch {
    return true
  }
}
