import { stringify } from 'csv-stringify/sync'
import { type Environment, loadConfig } from '../config.ts'
import { ServiceError } from '../errors.ts'
import { isSameFile } from '../storage/durable-files.ts'
import { openUserTransfer } from '../wiring/open-user-transfer.ts'
import { EXIT, UsageError } from './command-context.ts'
import { type FileFormat, formatOf } from './file-format.ts'
import { watchInterruption } from './interruption.ts'
import { openOutputFile } from './output-file.ts'
import { createProgress } from './progress.ts'

export interface ExportFlags {
  readonly format?: FileFormat
  readonly withDigests?: boolean
  readonly sort?: string
  readonly email?: string
  readonly name?: string
  readonly createdAfter?: string
  readonly createdBefore?: string
  readonly updatedAfter?: string
  readonly updatedBefore?: string
}

const COLUMNS = ['id', 'name', 'email', 'created_at', 'updated_at']

/** Writes users to a file or to standard output. */
export async function exportUsers(
  environment: Environment,
  flags: ExportFlags & { readonly file: string },
): Promise<number> {
  const { file, withDigests = false } = flags
  const format = formatOf(file, flags.format)
  const config = loadConfig(environment)
  if (isSameFile(file, config.database.path)) throw new UsageError(`${file} is the database`)
  const parameters = parametersOf(flags)
  const interruption = watchInterruption()
  const { signal } = interruption
  const transfer = await openUserTransfer(config, { purpose: 'export' })
  const progress = createProgress({ unit: 'users' })
  const columns = [...COLUMNS, ...(withDigests ? ['password_digest'] : [])]
  const textOf = format === 'csv' ? toCsv : toNdjson
  try {
    const options = { parameters, withDigests }
    const total = await transfer.exporter.count(options)
    const output = await openOutputFile(file, signal)
    try {
      let done = 0
      if (format === 'csv') await output.write(`${columns.join()}\n`)
      for await (const users of transfer.exporter.users(options)) {
        signal.throwIfAborted()
        await output.write(textOf(users, columns))
        done += users.length
        progress.update(done, total === 0 ? undefined : Math.min(1, done / total))
      }
      await output.finish()
    } catch (error) {
      await output.discard()
      if (error !== signal.reason) throw error
      return interruption.exitCode()
    }
    return EXIT.done
  } catch (error) {
    throw asUsageError(error)
  } finally {
    progress.end()
    interruption.end()
    await transfer.close()
  }
}

function parametersOf(flags: ExportFlags) {
  const values = {
    sort: flags.sort,
    email: flags.email,
    name: flags.name,
    created_after: flags.createdAfter,
    created_before: flags.createdBefore,
    updated_after: flags.updatedAfter,
    updated_before: flags.updatedBefore,
  }
  return Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [{ name, value }],
  )
}

function toNdjson(users: readonly string[]): string {
  return users.map(json => `${json}\n`).join('')
}

function toCsv(users: readonly string[], columns: readonly string[]): string {
  return stringify(
    users.map(json => JSON.parse(json)),
    { columns: [...columns] },
  )
}

/** Options that are wrong, in the words in which clients are told of parameters. */
function asUsageError(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== 'query_invalid') return error
  const problems = (error.details.errors ?? []).map(
    ({ field, messages }) => `--${field.replace('_', '-')} ${messages.join(', ')}`,
  )
  return new UsageError(problems.join('; '))
}
