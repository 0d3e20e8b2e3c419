import { z } from 'zod'
import type { BanQuery } from '../../limits/ban-store.ts'

/** A place in the list of bans. */
export type BanPlace = NonNullable<BanQuery['after']>

const PAYLOAD = z.tuple([z.string(), z.string()])

/** A place as opaque text. It needs no signature, because whoever may send one may list all bans. */
export function encodeBanCursor({ rule, clientKey }: BanPlace): string {
  return Buffer.from(JSON.stringify([rule, clientKey])).toString('base64url')
}

/** `undefined` for text that does not decode to a place. */
export function decodeBanCursor(text: string): BanPlace | undefined {
  try {
    const [rule, clientKey] = PAYLOAD.parse(JSON.parse(Buffer.from(text, 'base64url').toString()))
    return { rule, clientKey }
  } catch {
    return undefined
  }
}
