import { z } from 'zod'
import { checkQuery, type SentParameter, validData, wholeNumber } from '../http/query.ts'
import { decodeChangeCursor } from './cursor.ts'

/** The parameters of `GET /users/changes`. */
export const changeParameters = z.strictObject({
  after: z
    .string()
    .optional()
    .meta({
      description: 'The cursor `next` of the previous answer; without it, from the beginning.',
      minLength: 1,
      examples: ['k3Jd0a4zWyI5ZjQ0ZTU3M2Q3YTAiLDEsIjQyIiw3XQ'],
    }),
  limit: wholeNumber(1, 1000)
    .default(100)
    .meta({
      description: 'The most changes in the answer.',
      examples: [500],
    }),
  wait: wholeNumber(0, 60)
    .default(0)
    .meta({
      description: 'Seconds to wait while there is no change after the cursor.',
      examples: [30],
    }),
})

const streamParameters = changeParameters.pick({ after: true })

/** Throws `query_invalid` with every wrong parameter. */
export function parseChangeQuery(parameters: readonly SentParameter[]) {
  return parse(parameters, changeParameters)
}

/** The same for a stream, which takes only `after`. The id of the last event counts before it. */
export function parseStreamQuery(parameters: readonly SentParameter[], lastEventId?: string) {
  return parse(parameters, streamParameters, lastEventId)
}

function parse<T extends { after?: string | undefined }>(
  parameters: readonly SentParameter[],
  schema: z.ZodType<T>,
  lastEventId?: string,
) {
  const checked = checkQuery(parameters, schema)
  const { data, errors } = checked
  const text = lastEventId ?? data?.after
  const after = text === undefined ? undefined : decodeChangeCursor(text)
  if (text !== undefined && after === undefined && !errors.has('after')) {
    errors.set('after', 'is not a cursor of changes')
  }
  return { ...validData(checked), after }
}
