import { isIP } from 'node:net'
import { z } from 'zod'
import type { PostgresParameter } from './postgres-location.ts'
import { MalformedUrl, type PostgresUrl } from './postgres-url.ts'
import type { Variables, WrongVariable } from './value-kind.ts'

/** Of a URL that names no host. libpq would use a Unix socket, in a folder that differs from build to build. */
export const DEFAULT_HOST = 'localhost'
/** Of a host without a port. */
export const DEFAULT_PORT = 5432

const anyText = z.string().min(1)

/** How each parameter is parsed, and the variable that gives it where the URL does not. */
const PARAMETERS = {
  host: {
    variable: 'PGHOST',
    mayBe: 'host names, IP addresses or folders of Unix sockets, separated by commas',
    schema: z
      .string()
      .transform(text => text.split(',').map(host => host || DEFAULT_HOST))
      .refine(hosts => hosts.every(isHost)),
  },
  port: {
    variable: 'PGPORT',
    mayBe: 'a port from 1 to 65535, or one for each host, separated by commas',
    schema: z
      .string()
      .transform(text => text.split(',').map(port => (port === '' ? DEFAULT_PORT : portOf(port))))
      .refine(ports => ports.every(port => port >= 1 && port <= 65_535)),
  },
  user: { variable: 'PGUSER', mayBe: 'the name of a role', schema: anyText },
  password: { variable: 'PGPASSWORD', mayBe: 'a password', schema: z.string() },
  dbname: { variable: 'PGDATABASE', mayBe: 'the name of a database', schema: anyText },
  sslmode: {
    variable: 'PGSSLMODE',
    mayBe: 'disable, require, verify-ca or verify-full',
    schema: z.enum(['disable', 'require', 'verify-ca', 'verify-full']),
  },
  sslrootcert: { variable: 'PGSSLROOTCERT', mayBe: 'the path of a PEM file', schema: anyText },
  sslcert: { variable: 'PGSSLCERT', mayBe: 'the path of a PEM file', schema: anyText },
  sslkey: { variable: 'PGSSLKEY', mayBe: 'the path of a PEM file', schema: anyText },
  application_name: { variable: 'PGAPPNAME', mayBe: 'a name', schema: anyText },
  connect_timeout: {
    variable: 'PGCONNECT_TIMEOUT',
    mayBe: 'a whole number of seconds, where 0 is the default of the service',
    schema: z
      .string()
      .regex(/^-?\d{1,6}$/)
      .transform(text => Number(text) * 1000),
  },
  options: { variable: 'PGOPTIONS', mayBe: 'options of the server', schema: anyText },
} as const satisfies Readonly<Record<PostgresParameter, object>>

/** Variables of libpq that would lead to another database if they were ignored. */
export const REFUSED_VARIABLES = {
  PGHOSTADDR: 'left out only, because PGHOST also takes addresses',
  PGSERVICE: 'left out only, because service files are not read',
}

/** The variables that complete a URL, or that cannot be used with one. */
export const POSTGRES_VARIABLES: readonly string[] = [
  ...Object.values(PARAMETERS).map(({ variable }) => variable),
  ...Object.keys(REFUSED_VARIABLES),
]

type Parameters = typeof PARAMETERS
type ValueOf<Name extends PostgresParameter> = z.output<Parameters[Name]['schema']>

/** Where each parameter is read. `blame` refuses one that is there; `why` completes a sentence that begins with its name. */
export interface Reader {
  read<Name extends PostgresParameter>(name: Name): ValueOf<Name> | undefined
  blame(name: PostgresParameter, why: string): undefined
  /** Whether the URL itself has one. */
  isInUrl(name: PostgresParameter): boolean
}

/** Reads the parameters of a URL. Those that are wrong throw `MalformedUrl`, or are added to `wrong`. */
export function createReader(
  given: PostgresUrl,
  variables: Variables,
  wrong: WrongVariable[],
): Reader {
  const textOf = (name: PostgresParameter) => given[name] ?? variables[PARAMETERS[name].variable]
  const isInUrl = (name: PostgresParameter) => given[name] !== undefined

  function blame(name: PostgresParameter, why?: string): undefined {
    const { variable, mayBe } = PARAMETERS[name]
    if (isInUrl(name)) {
      throw new MalformedUrl(`its ${name} ${why ?? 'is wrong'}: it may be ${mayBe}`)
    }
    const text = textOf(name) ?? ''
    wrong.push({ name: variable, text, why: why && `it ${why}`, mayBe })
  }

  return {
    isInUrl,
    blame,
    read: name => {
      const text = textOf(name)
      if (text === undefined) return undefined
      const { success, data } = PARAMETERS[name].schema.safeParse(text)
      return success ? (data as ValueOf<typeof name>) : blame(name, whyNot(name, text))
    },
  }
}

function whyNot(name: PostgresParameter, text: string): string | undefined {
  const isWeak = name === 'sslmode' && ['prefer', 'allow'].includes(text)
  return isWeak ? 'would leave it to the server whether the connection is encrypted' : undefined
}

function isHost(text: string): boolean {
  return text.startsWith('/') || isIP(text) !== 0 || /^[^\s@:/?#[\]]+$/.test(text)
}

function portOf(text: string): number {
  return /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
}
