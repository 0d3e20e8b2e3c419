import { z } from 'zod'
import { ServiceError } from '../../errors.ts'
import { checkQuery, type SentParameter, validData, wholeNumber } from '../../http/query.ts'
import type { Ban, BanQuery, BanSelection } from '../../limits/ban-store.ts'
import type { BanOrder } from '../../limits/kinds/ban-control.ts'
import { isObject } from '../../platform/json.ts'

const chosen = { rule: z.string().optional(), client: z.string().optional() }

const NO_CURSOR = 'is not a cursor of this list'

const listParameters = z.strictObject({
  ...chosen,
  contains: z.string().optional(),
  after: z
    .string()
    .transform(decodeJson)
    .pipe(z.tuple([z.string(NO_CURSOR), z.string(NO_CURSOR)], NO_CURSOR))
    .transform(([rule, clientKey]) => ({ rule, clientKey }))
    .optional(),
  per_page: wholeNumber(1, 1000).default(100),
})

const liftParameters = z.strictObject({
  ...chosen,
  all: z.literal('true', 'must be true').optional(),
})

/** Throws `query_invalid` with every wrong parameter. */
export async function parseBanList(parameters: readonly SentParameter[]): Promise<BanQuery> {
  const checked = checkQuery(parameters, listParameters)
  const isGiven = (sought: string) => parameters.some(({ name }) => name === sought)
  if (isGiven('client') && isGiven('contains'))
    checked.errors.set('contains', 'cannot be given together with client')
  const { after, per_page: limit, contains, rule, client } = validData(checked)
  const selection = await selectionOf({ rule, client: client ?? contains })
  return { ...selection, keyPart: contains, after, limit }
}

/** Throws `query_invalid` with every wrong parameter, and for a query that neither chooses bans nor asks for all. */
export async function parseBanLift(parameters: readonly SentParameter[]): Promise<BanSelection> {
  const checked = checkQuery(parameters, liftParameters)
  const { errors } = checked
  const isSome = parameters.some(({ name }) => name === 'rule' || name === 'client')
  const isAll = parameters.some(({ name }) => name === 'all')
  if (isSome && isAll) errors.set('all', 'cannot be given together with rule or client')
  if (!isSome && !isAll) errors.set('all', 'must be true if neither rule nor client is given')
  return selectionOf(validData(checked))
}

type Chosen = Pick<z.output<typeof liftParameters>, 'rule' | 'client'>

async function selectionOf({ rule, client }: Chosen): Promise<BanSelection> {
  if (client === undefined) return { rule }
  // Only where it is needed: the list of public suffixes takes 5 MB and 50 ms.
  const { possibleKeys } = await import('../../limits/rules/client-key.ts')
  return { rule, clientKeys: possibleKeys(client) }
}

/** A place in the list as opaque text. It needs no signature, because whoever may send one may list all bans. */
export function encodeBanCursor({ rule, clientKey }: Ban): string {
  return Buffer.from(JSON.stringify([rule, clientKey])).toString('base64url')
}

function decodeJson(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString())
  } catch {
    return undefined
  }
}

/**
 * The order in the body `{"ban": {"rule", "client", "for"}}`, about whose members the limits say what is wrong. Throws
 * `validation_failed` for a body without one.
 */
export function parseBanOrder(body: unknown): BanOrder {
  const ban = isObject(body) ? body.ban : undefined
  if (isObject(ban)) return ban
  const messages = [ban == null ? 'is required' : 'must be an object']
  const errors = [{ field: 'ban', at: { pointer: '/ban' }, messages }]
  throw new ServiceError('validation_failed', { errors })
}
