import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import type { DescribedInterface, DescribedResponse } from './described-interface.ts'

export interface ReceivedAnswer {
  readonly status: number
  /** Names and values alternate. */
  readonly rawHeaders: readonly string[]
  readonly body: Buffer
}

export interface Asked {
  readonly method: string
  /** Path and query. */
  readonly target: string
}

/** Headers that the document does not describe: those for Node, caches and browsers, which clients do not read. */
const LEFT_OUT = [
  ...['date', 'connection', 'keep-alive', 'content-length', 'transfer-encoding', 'content-type'],
  ...['cache-control', 'vary', 'x-content-type-options', 'content-security-policy'],
  ...['access-control-allow-origin', 'access-control-expose-headers'],
  ...['accept', 'accept-encoding', 'content-encoding'],
]

/** The operation of a request; for HEAD, that of GET. `undefined` if there is none. */
export function findOperation({ paths }: DescribedInterface, { method, target }: Asked) {
  const item = findPath(paths, target)
  return item?.[method === 'HEAD' ? 'get' : method.toLowerCase()]
}

function findPath<T>(paths: Readonly<Record<string, T>>, target: string): T | undefined {
  const segments = pathOf(target).split('/')
  const [, found] =
    Object.entries(paths).find(([path]) => {
      const template = path.split('/')
      return (
        template.length === segments.length &&
        template.every((part, at) =>
          part.startsWith('{') ? segments[at] !== '' : part === segments[at],
        )
      )
    }) ?? []
  return found
}

function pathOf(target: string): string {
  return target.replace(/[?#].*$/s, '')
}

/** The differences between a response and the document; empty if the document describes all its parts. */
export function undocumented(
  described: DescribedInterface,
  asked: Asked,
  answer: ReceivedAnswer,
  { hasOthers }: { readonly hasOthers: boolean },
): string[] {
  const { status } = answer
  const { responses = {} } = findOperation(described, asked) ?? {}
  const response = responses[status] ?? (hasOthers ? responses.default : undefined)
  if (response === undefined) return [`status ${status}`]
  return [
    ...wrongHeaders(described, response, answer),
    ...wrongBody(described, response, answer, asked.method === 'HEAD'),
  ]
}

function wrongHeaders(
  described: DescribedInterface,
  { headers = {} }: DescribedResponse,
  { rawHeaders }: ReceivedAnswer,
): string[] {
  const wrong: string[] = []
  const known = new Map(
    Object.entries(headers).map(([name, header]) => [name.toLowerCase(), header]),
  )
  const received = new Map<string, string>()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase()
    if (received.has(name)) wrong.push(`${name} twice`)
    received.set(name, rawHeaders[at + 1] ?? '')
  }
  for (const [name, value] of received) {
    if (LEFT_OUT.includes(name)) continue
    const header = known.get(name)
    if (header === undefined) wrong.push(`header ${name}`)
    else {
      const read = header.schema.type === 'integer' && /^\d+$/.test(value) ? Number(value) : value
      const validate = described.compile(header.schema)
      if (!validate(read)) wrong.push(`header ${name}: ${value}`)
    }
  }
  for (const [name, { required }] of known) {
    if (required && !received.has(name)) wrong.push(`no header ${name}`)
  }
  return wrong
}

function wrongBody(
  described: DescribedInterface,
  { content }: DescribedResponse,
  { body, rawHeaders }: ReceivedAnswer,
  isHead: boolean,
): string[] {
  if (isHead || content === undefined) return body.length === 0 ? [] : ['a body']
  const contentType = headerOf(rawHeaders, 'content-type') ?? ''
  const [type = '', ...parameters] = contentType.split(/; */)
  const media = content[type]
  const charset = type === 'application/problem+json' ? '' : 'charset=utf-8'
  if (media === undefined || parameters.join() !== charset) return [`content type ${contentType}`]
  const plain = DECODERS[headerOf(rawHeaders, 'content-encoding') ?? 'identity']?.(body)
  const text = new TextDecoder('utf-8', { fatal: true }).decode(plain)
  const validate = described.compile(media.schema, { closed: true })
  if (validate(type.endsWith('json') ? JSON.parse(text) : text)) return []
  return [`body ${text.slice(0, 500)}: ${JSON.stringify(validate.errors)}`]
}

const DECODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  identity: bytes => bytes,
  gzip: gunzipSync,
  br: brotliDecompressSync,
}

function headerOf(rawHeaders: readonly string[], name: string): string | undefined {
  const at = rawHeaders.findIndex(
    (header, index) => index % 2 === 0 && header.toLowerCase() === name,
  )
  return at < 0 ? undefined : rawHeaders[at + 1]
}
