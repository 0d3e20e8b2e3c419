/** A stored password, as its system made it. */
export interface Digest {
  /** The canonical form: it begins with `$`, and is the same for all spellings of one digest. */
  readonly text: string
  /** Digests of one kind take the same time to verify. */
  readonly kind: string
  /** Whether a verification takes at most `MAX_MEMORY_KIB` and a few seconds. */
  readonly isAffordable: boolean
  /** Whether it is at least as hard to guess as a new digest of this service. */
  readonly isCurrent?: boolean
  /** A password of fewer bytes is judged as a whole. Undefined: every password. */
  readonly judgedBytes?: number
  /** Whether the system that made the digest lets this password in. */
  verify(password: string): Promise<boolean>
}

/**
 * Memory that one verification may take. Several run at once, so without a limit an imported
 * digest could take all memory of the machine.
 */
export const MAX_MEMORY_KIB = 256 * 1024

/** Without padding. */
export function encodeBase64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}

/**
 * The bytes of a text in Base64: standard, URL-safe or with `.` for `+` as passlib writes it, padded
 * or not. Undefined for any other text: some lengths and some last characters are impossible.
 */
export function decodeBase64(text = ''): Buffer | undefined {
  const standard = text
    .replace(/={0,2}$/, '')
    .replace(/[-.]/g, '+')
    .replaceAll('_', '/')
  const bytes = Buffer.from(standard, 'base64')
  return encodeBase64(bytes) === standard ? bytes : undefined
}
