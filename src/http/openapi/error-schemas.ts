import { component } from './references.ts'

const MESSAGES = { type: 'array', items: { type: 'string' }, minItems: 1 }

/** No enum: a client must be ready for the codes of later releases. */
const REASON = {
  type: 'string',
  pattern: '^[a-z_]+$',
  description:
    'What happened, for programs: a stable name. The examples of each response show its names.',
}

/** The format of every error. */
export const ERROR = component('schemas', 'Error', {
  description: 'What went wrong.',
  type: 'object',
  properties: {
    message: { type: 'string', description: 'For people.' },
    resource: {
      type: 'string',
      enum: ['User', 'Request'],
      description: '`User` for `/users` and every path below it.',
    },
    code: { type: 'integer', minimum: 100, maximum: 599, description: 'The status.' },
    status: { type: 'boolean', const: false, description: 'Always false: the request failed.' },
    reason: REASON,
    errors: {
      type: 'object',
      description: 'Everything that is wrong with each field or parameter.',
      additionalProperties: MESSAGES,
    },
  },
  required: ['message', 'resource', 'code', 'status', 'reason'],
})

/** RFC 9457. */
export const PROBLEM = component('schemas', 'Problem', {
  description: 'What went wrong, in the format of RFC 9457, for clients whose `Accept` prefers it.',
  type: 'object',
  properties: {
    type: {
      type: 'string',
      format: 'uri-reference',
      description: 'The kind of problem; `about:blank` if the status says it.',
    },
    title: { type: 'string', description: 'The kind of problem in words.' },
    status: { type: 'integer', minimum: 100, maximum: 599 },
    detail: { type: 'string', description: 'For people.' },
    instance: { type: 'string', format: 'uri-reference', description: 'The path.' },
    reason: REASON,
    'violated-policies': {
      type: 'array',
      items: { type: 'string' },
      description: 'The limits that were exceeded.',
    },
    errors: {
      type: 'array',
      items: component('schemas', 'ProblemDetail', {
        description: 'One thing that is wrong.',
        type: 'object',
        properties: {
          detail: { type: 'string' },
          pointer: {
            type: 'string',
            description: 'The place in the body: a JSON pointer after a #.',
          },
          parameter: { type: 'string', description: 'The query parameter.' },
        },
        required: ['detail'],
      }),
    },
  },
  required: ['type', 'title', 'status', 'detail', 'reason'],
})
