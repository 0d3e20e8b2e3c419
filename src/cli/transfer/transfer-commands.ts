import { type Command, Option } from 'commander'
import { CONFLICT_POLICIES } from '../../users/transfer/user-import-store.ts'
import type { CommandContext } from '../terminal/command-context.ts'
import type { ExportFlags } from './export.ts'
import { FILE_FORMATS } from './file-format.ts'
import type { ImportFlags } from './import.ts'

/** Adds `import` and `export`. */
export function addTransferCommands(program: Command, { terminal, run }: CommandContext): void {
  const format = () =>
    new Option('--format <FORMAT>', 'format of the file, if its name does not show it').choices(
      FILE_FORMATS,
    )

  program
    .command('import')
    .description('import users from an NDJSON or CSV file')
    .argument('<FILE>', 'the file, or - for standard input')
    .addOption(format())
    .option(
      '--delimiter <CHARACTER>',
      'CSV delimiter: one character, or comma, semicolon or tab; detected if left out',
    )
    .addOption(
      new Option('--on-conflict <POLICY>', 'what to do if an e-mail or id exists already')
        .choices(CONFLICT_POLICIES)
        .default('fail'),
    )
    .option(
      '--rejects <FILE>',
      'write the line and the errors of each rejected row to this file, as NDJSON',
    )
    .option('--resume', 'continue an interrupted import of this file')
    .option('--restart', 'start at the first row, even if an earlier import was interrupted')
    .option('--dry-run', 'report what the import would do, and change nothing')
    .option('--json', 'print the summary as JSON')
    .addHelpText('after', IMPORT_HELP)
    .action((file: string, flags: ImportFlags) =>
      run(async () => {
        const { importUsers } = await import('./import.ts')
        return importUsers(terminal, { ...flags, file })
      }),
    )

  const exportCommand = program
    .command('export')
    .description('write users to a file as NDJSON or CSV')
    .argument('[FILE]', 'the file, or - for standard output', '-')
    .addOption(format())
    .option(
      '--delimiter <CHARACTER>',
      'CSV delimiter: one character, or comma, semicolon or tab; a comma if left out',
    )
    .option('--with-digests', 'include the password digests')
    .option('--json', 'print a summary of the written file as JSON')
    .option('--sort <FIELD>', 'id, name, email, created_at or updated_at; -FIELD for descending')
  for (const name of ['email', 'name']) {
    exportCommand.option(`--${name} <TEXT>`, `only users with this ${name}, ignoring case`)
  }
  for (const name of ['created', 'updated']) {
    exportCommand
      .option(
        `--${name}-after <TIME>`,
        `only users ${name} after this time, such as 2026-01-31T12:00:00Z`,
      )
      .option(`--${name}-before <TIME>`, `only users ${name} before this time`)
  }
  exportCommand.action((file: string, flags: ExportFlags) =>
    run(async () => {
      const { exportUsers } = await import('./export.ts')
      return exportUsers(terminal, { ...flags, file })
    }),
  )
}

const IMPORT_HELP = `
Fields: name, email, password or password_digest (Argon2, bcrypt or scrypt), and optionally id, created_at and updated_at,
which are kept as given. The first line of a CSV file names its fields. Other fields are ignored.`
