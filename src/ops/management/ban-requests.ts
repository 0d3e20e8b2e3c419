import { z } from 'zod'
import { ServiceError } from '../../errors.ts'
import { checkQuery, queryError, type SentParameter } from '../../http/query.ts'
import type { BanOrder } from '../../limits/ban-control.ts'
import type { BanSelection } from '../../limits/ban-store.ts'
import { type BanPlace, decodeBanCursor } from './ban-cursor.ts'

/** What turns the texts of operators into what rules work with. Loaded with the first request that needs it. */
export interface ClientReading {
  /** All keys that a client may have, for any rule. */
  possibleKeys(name: string): readonly string[]
}

/** Bans chosen by rule and client, a page at a time. */
export interface BanListRequest {
  readonly selection: BanSelection
  readonly after: BanPlace | undefined
  readonly perPage: number
}

const PER_PAGE_RULE = 'must be a whole number from 1 to 1000'

const chosen = { rule: z.string().optional(), client: z.string().optional() }

const listParameters = z.strictObject({
  ...chosen,
  after: z.string().optional(),
  per_page: z
    .string()
    .regex(/^[1-9]\d{0,3}$/, PER_PAGE_RULE)
    .transform(Number)
    .pipe(z.int().max(1000, PER_PAGE_RULE))
    .default(100),
})

const liftParameters = z.strictObject({
  ...chosen,
  all: z.literal('true', 'must be true').optional(),
})

/** Throws `query_invalid` with every wrong parameter. */
export function parseBanList(
  parameters: readonly SentParameter[],
  reading: ClientReading,
): BanListRequest {
  const { data, errors } = checkQuery(parameters, listParameters)
  const cursor = parameters.find(({ name }) => name === 'after')?.value
  const after = cursor === undefined ? undefined : decodeBanCursor(cursor)
  if (cursor !== undefined && after === undefined && !errors.has('after')) {
    errors.set('after', 'is not a cursor of this list')
  }
  if (data === undefined || errors.size > 0) throw queryError(errors)
  return { selection: selectionOf(data, reading), after, perPage: data.per_page }
}

/** Throws `query_invalid` with every wrong parameter, and for a query that neither chooses bans nor asks for all. */
export function parseBanLift(
  parameters: readonly SentParameter[],
  reading: ClientReading,
): BanSelection {
  const { data, errors } = checkQuery(parameters, liftParameters)
  const isSome = parameters.some(({ name }) => name === 'rule' || name === 'client')
  const isAll = parameters.some(({ name }) => name === 'all')
  if (isSome && isAll) errors.set('all', 'cannot be given together with rule or client')
  if (!isSome && !isAll) errors.set('all', 'must be true if neither rule nor client is given')
  if (data === undefined || errors.size > 0) throw queryError(errors)
  return selectionOf(data, reading)
}

function selectionOf(
  { rule, client }: { readonly rule?: string | undefined; readonly client?: string | undefined },
  { possibleKeys }: ClientReading,
): BanSelection {
  return {
    ...(rule !== undefined && { rule }),
    ...(client !== undefined && { clientKeys: possibleKeys(client) }),
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
