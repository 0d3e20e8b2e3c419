import { createCipheriv, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { type Digest, decodeBase64, encodeBase64, MAX_MEMORY_KIB } from './digest.ts'

const deriveKey = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt)

/**
 * Memory that scrypt may fill in all lanes together. It fills one lane after another, and this much
 * takes about four seconds, like the highest cost of bcrypt.
 */
const MAX_FILLED_KIB = 4 * MAX_MEMORY_KIB

const MAX_LANES = 16

/** `ln` is the binary logarithm of N: https://www.rfc-editor.org/rfc/rfc7914#section-2 */
const PHC =
  /^\$scrypt\$ln=(?<logCost>[1-9]\d?),r=(?<blocks>[1-9]\d?),p=(?<lanes>[1-9]\d?)\$(?<salt>[^$]{1,172})\$(?<key>[^$]{22,172})$/

/** The salt is text, and a key has 64 bytes. */
const WERKZEUG = /^scrypt:(\d+):(\d+):(\d+)\$([^$]{1,128})\$([\da-f]{128})$/

/** As PHC, and then two parts that are the same for all users of a project. */
const FIREBASE =
  /^\$fire(?<phc>scrypt(?:\$[^$]+){3})\$(?<separator>[^$]{0,172})\$(?<signer>[^$]{22,172})$/

/** What GoTrue keeps of a user of Firebase: https://github.com/supabase/auth */
const GOTRUE =
  /^\$fbscrypt\$v=1,n=(\d+),r=(\d+),p=(\d+)(?:,ss=([^,$]*))?,sk=([^,$]+)\$([^$]+)\$([^$]+)$/

/** Of AES-256. */
const CIPHER_KEY_BYTES = 32

/**
 * PHC `$scrypt$ln=16,r=8,p=1$salt$hash`; Werkzeug `scrypt:32768:8:1$…`; Firebase
 * `$firescrypt$ln=14,r=8,p=1$salt$hash$separator$signer`, and as GoTrue writes it, `$fbscrypt$…`.
 */
export function parseScrypt(text: string): Digest | undefined {
  const spelled = text.replace(GOTRUE, '$$firescrypt$$ln=$1,r=$2,p=$3$$$6$$$7$$$4$$$5')
  const firebase = FIREBASE.exec(spelled)?.groups
  const phc = readPhc(firebase ? `$${firebase.phc}` : spelled.replace(WERKZEUG, rewriteWerkzeug))
  if (phc === undefined) return undefined
  const { salt, key, derive, ...digest } = phc
  if (firebase === undefined) {
    return { ...digest, verify: compare(password => derive(password, salt, key.length), key) }
  }
  const separator = decodeBase64(firebase.separator)
  const signer = decodeBase64(firebase.signer)
  if (!separator || signer?.length !== key.length) return undefined
  // https://github.com/firebase/scrypt
  const seal = async (password: string) => {
    const cipherKey = await derive(password, Buffer.concat([salt, separator]), CIPHER_KEY_BYTES)
    return createCipheriv('aes-256-ctr', cipherKey, Buffer.alloc(16)).update(signer)
  }
  const canonical = `$fire${digest.text.slice(1)}$${encodeBase64(separator)}$${encodeBase64(signer)}`
  return { ...digest, text: canonical, verify: compare(seal, key) }
}

function compare(compute: (password: string) => Promise<Buffer>, key: Buffer) {
  return async (password: string): Promise<boolean> =>
    // To scrypt, `a` and `a\0` are the same password: HMAC fills a short key with zero bytes.
    !password.endsWith('\0') && timingSafeEqual(await compute(password), key)
}

function readPhc(text: string) {
  const groups = PHC.exec(text)?.groups
  const salt = decodeBase64(groups?.salt)
  const key = decodeBase64(groups?.key)
  const logCost = Number(groups?.logCost)
  const blocks = Number(groups?.blocks)
  const lanes = Number(groups?.lanes)
  // RFC 7914 2: N must be less than 2 to the power of 128 * r / 8.
  if (!salt?.length || !key?.length || logCost >= 16 * blocks) return undefined
  const kind = `$scrypt$ln=${logCost},r=${blocks},p=${lanes}`
  const memoryKib = (blocks * 2 ** logCost) / 8
  // The library needs a little more than the blocks themselves.
  const options = { N: 2 ** logCost, r: blocks, p: lanes, maxmem: 2048 * memoryKib + 2 ** 20 }
  return {
    text: `${kind}$${encodeBase64(salt)}$${encodeBase64(key)}`,
    kind,
    isAffordable:
      lanes <= MAX_LANES && memoryKib <= MAX_MEMORY_KIB && lanes * memoryKib <= MAX_FILLED_KIB,
    salt,
    key,
    derive: (password: string, fullSalt: Buffer, bytes: number) =>
      deriveKey(password, fullSalt, bytes, options),
  }
}

function rewriteWerkzeug(_: string, ...[cost, blocks, lanes, salt = '', key = '']: string[]) {
  const costs = `ln=${Math.log2(Number(cost))},r=${blocks},p=${lanes}`
  const texts = [Buffer.from(salt), Buffer.from(key, 'hex')].map(encodeBase64)
  return ['$scrypt', costs, ...texts].join('$')
}
