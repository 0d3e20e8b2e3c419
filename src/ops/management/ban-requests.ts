import { z } from 'zod'
import { ServiceError } from '../../errors.ts'
import { checkQuery, type SentParameter, validData, wholeNumber } from '../../http/query.ts'
import type { BanOrder } from '../../limits/ban-control.ts'
import type { BanQuery, BanSelection } from '../../limits/ban-store.ts'

type BanPlace = NonNullable<BanQuery['after']>

/** Returns all keys that a client may have, for any rule. */
export type PossibleKeys = (client: string) => readonly string[]

const chosen = { rule: z.string().optional(), client: z.string().optional() }

const listParameters = z.strictObject({
  ...chosen,
  after: z
    .string()
    .transform((text, context) => {
      const place = decodeBanCursor(text)
      if (place === undefined) context.addIssue('is not a cursor of this list')
      return place
    })
    .optional(),
  per_page: wholeNumber(1, 1000).default(100),
})

const liftParameters = z.strictObject({
  ...chosen,
  all: z.literal('true', 'must be true').optional(),
})

/** Throws `query_invalid` with every wrong parameter. */
export function parseBanList(
  parameters: readonly SentParameter[],
  possibleKeys: PossibleKeys,
): BanQuery {
  const { after, per_page, ...others } = validData(checkQuery(parameters, listParameters))
  return { ...selectionOf(others, possibleKeys), ...(after && { after }), limit: per_page }
}

/** Throws `query_invalid` with every wrong parameter, and for a query that neither chooses bans nor asks for all. */
export function parseBanLift(
  parameters: readonly SentParameter[],
  possibleKeys: PossibleKeys,
): BanSelection {
  const checked = checkQuery(parameters, liftParameters)
  const { errors } = checked
  const isSome = parameters.some(({ name }) => name === 'rule' || name === 'client')
  const isAll = parameters.some(({ name }) => name === 'all')
  if (isSome && isAll) errors.set('all', 'cannot be given together with rule or client')
  if (!isSome && !isAll) errors.set('all', 'must be true if neither rule nor client is given')
  return selectionOf(validData(checked), possibleKeys)
}

function selectionOf(
  { rule, client }: { readonly rule?: string | undefined; readonly client?: string | undefined },
  possibleKeys: PossibleKeys,
): BanSelection {
  return {
    ...(rule !== undefined && { rule }),
    ...(client !== undefined && { clientKeys: possibleKeys(client) }),
  }
}

const PLACE = z.tuple([z.string(), z.string()])

/** A place in the list as opaque text. It needs no signature, because whoever may send one may list all bans. */
export function encodeBanCursor({ rule, clientKey }: BanPlace): string {
  return Buffer.from(JSON.stringify([rule, clientKey])).toString('base64url')
}

/** `undefined` for text that does not decode to a place. */
function decodeBanCursor(text: string): BanPlace | undefined {
  try {
    const [rule, clientKey] = PLACE.parse(JSON.parse(Buffer.from(text, 'base64url').toString()))
    return { rule, clientKey }
  } catch {
    return undefined
  }
}

/** The limits say what is wrong with it. */
const member = z.unknown().optional()

const banBody = z.object(
  {
    ban: z.object(
      { rule: member, client: member, for: member },
      { error: ({ input }) => (input == null ? 'is required' : 'must be an object') },
    ),
  },
  'is required',
)

/** Finds the order in the body `{"ban": {"rule", "client", "for"}}`. Throws `validation_failed` for a body without one. */
export function parseBanOrder(body: unknown): BanOrder {
  const { success, data, error } = banBody.safeParse(body)
  if (success) return data.ban
  const messages = error.issues.map(({ message }) => message)
  const errors = [{ field: 'ban', at: { pointer: '/ban' }, messages }]
  throw new ServiceError('validation_failed', { errors })
}
