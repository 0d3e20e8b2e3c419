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

/** The digits of crypt(3), from 0 to 63. */
export const CRYPT_DIGITS = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** As crypt(3) and phpass write bytes: three become four digits, the lowest bits first. */
export function encodeCrypt64(bytes: Uint8Array): string {
  let text = ''
  for (let start = 0; start < bytes.length; start += 3) {
    const three = bytes.subarray(start, start + 3)
    const value = three.reduceRight((sum, byte) => (sum << 8) | byte, 0)
    for (let digit = 0; digit <= three.length; digit++) {
      text += CRYPT_DIGITS[(value >> (6 * digit)) & 63]
    }
  }
  return text
}
