import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import type { Request } from 'express'
import { getDomain } from 'tldts'
import { atOnce } from './at-once.ts'
import type { Key, KeyName, KeyPart } from './limits-file.ts'
import { remembering } from './remembering.ts'
import { countedAddress, factsOf, headerValues, queryValues } from './request-facts.ts'

const MAX_KEY_CHARS = 128

/** What a request is counted by; `undefined` where it is not counted. */
export type KeyOf = (request: Request) => string | undefined

/** The part of a key that is known only once the body is read. */
export function needsBody(key: Key | undefined): boolean {
  return partsOf(key).some(part => typeof part === 'string' && part.startsWith('body:'))
}

/** Parts may be functions, and may throw. */
export function compileKey(key: Key | undefined): KeyOf {
  const parts = partsOf(key).map(compilePart)
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return request => shortened(only(request))
  return request => {
    const values: string[] = []
    for (const part of parts) {
      const value = part(request)
      if (value === undefined) return undefined
      values.push(value)
    }
    return shortened(JSON.stringify(values))
  }
}

/**
 * What the client is counted by whom an operator names: by an address where the rule counts by `ip`, by a host name where
 * it counts by that or its domain, else by the value itself; by a JSON list of those where the key has several parts.
 * `undefined` for what the rule counts nobody by.
 */
export function namedKey(key: Key | undefined, name: string): string | undefined {
  const parts = partsOf(key)
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return shortened(namedPart(only, name))
  const names = jsonTexts(name)
  const values = parts.map((part, index) => namedPart(part, names[index] ?? ''))
  if (names.length !== parts.length || values.includes(undefined)) return undefined
  return shortened(JSON.stringify(values))
}

/** Under which keys the client may have been counted whom an operator names, by whichever rule. */
export function possibleKeys(name: string): readonly string[] {
  const unquoted = name.startsWith('"') ? jsonTexts(`[${name}]`)[0] : undefined
  const keys = [name, unquoted, shortened(name), addressKey(name)]
  return [...new Set(keys.filter(key => key !== undefined))]
}

function namedPart(part: KeyPart, name: string): string | undefined {
  if (name === '' || typeof part === 'function') return name || undefined
  const [kind] = splitAtColon(part)
  if (kind === 'ip') return addressKey(name)
  const host = name.toLowerCase().replace(/\.$/, '')
  if (kind === 'host') return host
  return kind === 'domain' ? domainOf(host) : name
}

/** Of an address, or of a network as clients are counted by it. */
function addressKey(name: string): string | undefined {
  const [address = ''] = name.split('/')
  const key = isIP(address) === 0 ? undefined : countedAddress(address)
  return name === address || name === key ? key : undefined
}

function jsonTexts(text: string): readonly string[] {
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) && list.every(item => typeof item === 'string') ? list : []
  } catch {
    return []
  }
}

/** Clients choose some keys, and many long ones would fill the memory that is meant for many. */
function shortened(key: string | undefined): string | undefined {
  if (key === undefined || key.length <= MAX_KEY_CHARS) return key
  return createHash('sha256').update(key).digest('base64url')
}

function partsOf(key: Key = 'ip'): readonly KeyPart[] {
  return Array.isArray(key) ? key : [key as KeyPart]
}

function compilePart(part: KeyPart): KeyOf {
  if (typeof part === 'function') return request => textOf(atOnce<unknown>(part(request)))
  const [kind, argument = ''] = splitAtColon(part)
  const name = argument.toLowerCase()
  switch (kind) {
    case 'ip':
      return request => factsOf(request).ipKey
    case 'domain':
      return domainKey()
    case 'host':
      return request => factsOf(request).host
    case 'path':
      return request => factsOf(request).path
    case 'header':
      return request => headerValues(request, name).join(', ') || undefined
    case 'query':
      return request => queryValues(request, argument)[0] || undefined
    default:
      return bodyValue(argument.split('.'))
  }
}

function splitAtColon(part: KeyName): [string, string | undefined] {
  const colon = part.indexOf(':')
  return colon < 0 ? [part, undefined] : [part.slice(0, colon), part.slice(colon + 1)]
}

function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  throw new TypeError('a key function must give a string or a number')
}

/** The registrable domain by the public suffix list; an address or a single label is itself. */
function domainOf(host: string): string {
  return getDomain(host, { allowPrivateDomains: true }) ?? host
}

function domainKey(): KeyOf {
  const rememberedDomain = remembering(domainOf)
  return request => {
    const { host } = factsOf(request)
    return host === undefined ? undefined : rememberedDomain(host)
  }
}

function bodyValue(path: readonly string[]): KeyOf {
  return request => {
    let value: unknown = request.body
    for (const name of path) {
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name))
        return undefined
      value = (value as Record<string, unknown>)[name]
    }
    if (typeof value === 'number') return String(value)
    return typeof value === 'string' ? value.trim().toLowerCase() || undefined : undefined
  }
}
