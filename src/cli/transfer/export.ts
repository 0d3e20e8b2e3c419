import { stringify } from 'csv-stringify/sync'
import { ServiceError } from '../../errors.ts'
import { isFileOfDatabase } from '../../open-database.ts'
import { openUserTransfer } from '../../wiring/open-user-transfer.ts'
import { EXIT, UsageError } from '../terminal/command-context.ts'
import { watchInterruption } from '../terminal/interruption.ts'
import { print } from '../terminal/print.ts'
import { createProgress, grouped } from '../terminal/progress.ts'
import { readConfig } from '../terminal/read-config.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { type FormatFlags, formatOf, STANDARD_STREAM } from './file-format.ts'
import { openOutputFile } from './output-file.ts'

export interface ExportFlags extends FormatFlags {
  readonly withDigests?: boolean
  readonly json?: boolean
  readonly sort?: string
  readonly email?: string
  readonly name?: string
  readonly createdAfter?: string
  readonly createdBefore?: string
  readonly updatedAfter?: string
  readonly updatedBefore?: string
}

const JSON_NEEDS_FILE = '--json needs a FILE: standard output is for the users themselves'

const COLUMNS = ['id', 'name', 'email', 'created_at', 'updated_at']

/** Runs `export`. Returns the exit code. */
export async function exportUsers(
  terminal: Terminal,
  flags: ExportFlags & { readonly file: string },
): Promise<number> {
  const { file, withDigests = false, json = false } = flags
  const { name: format, delimiter = ',', isPacked } = formatOf(file, flags)
  if (json && file === STANDARD_STREAM) throw new UsageError(JSON_NEEDS_FILE)
  const config = readConfig(terminal)
  if (isFileOfDatabase(file, config)) {
    throw new UsageError(`${file} is the database, or a file that belongs to it`)
  }
  const parameters = parametersOf(flags)
  const interruption = watchInterruption()
  const { signal } = interruption
  const transfer = await openUserTransfer(config, { purpose: 'export' })
  const progress = createProgress(terminal, { unit: 'users' })
  const columns = [...COLUMNS, ...(withDigests ? ['password_digest'] : [])]
  const csv = { columns, delimiter }
  try {
    const options = { parameters, withDigests }
    let done = 0
    const total = await transfer.exporter.count(options)
    const output = await openOutputFile(file, { terminal, signal, isPacked })
    try {
      if (format === 'csv') await output.write(`${columns.join(delimiter)}\n`)
      for await (const users of transfer.exporter.users(options)) {
        signal.throwIfAborted()
        await output.write(format === 'csv' ? toCsv(users, csv) : toNdjson(users))
        done += users.length
        progress.update(done, total === 0 ? undefined : Math.min(1, done / total))
      }
      await output.finish()
    } catch (error) {
      await output.discard()
      if (error !== signal.reason) throw error
      return interruption.exitCode()
    }
    progress.end()
    if (file !== STANDARD_STREAM) {
      const summary = { file, format, gzip: isPacked, users: done }
      await print(terminal, json ? JSON.stringify(summary) : `${file}: ${grouped(done)} users`)
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

function toCsv(
  users: readonly string[],
  options: { readonly columns: string[]; readonly delimiter: string },
): string {
  return stringify(
    users.map(json => JSON.parse(json)),
    options,
  )
}

/** Turns the messages about query parameters into messages about options. */
function asUsageError(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== 'query_invalid') return error
  const problems = (error.details.errors ?? []).map(
    ({ field, messages }) => `--${field.replace('_', '-')} ${messages.join(', ')}`,
  )
  return new UsageError(problems.join('; '))
}
