import { component } from './operation.ts'

const MESSAGES = { type: 'array', items: { type: 'string' }, minItems: 1 }

/** The format of every error. */
export const ERROR = component('schemas', 'Error', {
  description: 'What went wrong.',
  type: 'object',
  properties: {
    message: { type: 'string', description: 'For people.' },
    resource: {
      type: 'string',
      enum: ['User', 'Request'],
      description: '`User` for `/users` and what is under it.',
    },
    code: { type: 'integer', minimum: 100, maximum: 599, description: 'The status.' },
    status: { type: 'boolean', const: false, description: 'No success.' },
    errors: {
      type: 'object',
      description: 'All that is wrong with each field or parameter.',
      additionalProperties: MESSAGES,
    },
  },
  required: ['message', 'resource', 'code', 'status'],
})

/** RFC 9457. */
export const PROBLEM = component('schemas', 'Problem', {
  description: 'What went wrong, as RFC 9457 has it, for clients whose `Accept` likes that better.',
  type: 'object',
  properties: {
    type: {
      type: 'string',
      format: 'uri-reference',
      description: 'The kind of problem; `about:blank` where the status says it.',
    },
    title: { type: 'string', description: 'The kind of problem in words.' },
    status: { type: 'integer', minimum: 100, maximum: 599 },
    detail: { type: 'string', description: 'For people.' },
    instance: { type: 'string', format: 'uri-reference', description: 'The path.' },
    'violated-policies': {
      type: 'array',
      items: { type: 'string' },
      description: 'The limits that were reached.',
    },
    errors: {
      type: 'array',
      items: component('schemas', 'ProblemDetail', {
        description: 'One thing that is wrong.',
        type: 'object',
        properties: {
          detail: { type: 'string' },
          pointer: { type: 'string', description: 'Where in the body: a JSON pointer after a #.' },
          parameter: { type: 'string', description: 'In which query parameter.' },
        },
        required: ['detail'],
      }),
    },
  },
  required: ['type', 'title', 'status', 'detail'],
})
