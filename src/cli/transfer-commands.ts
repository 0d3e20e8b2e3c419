import { type Command, Option } from 'commander'
import { CONFLICT_POLICIES } from '../users/user-import-store.ts'
import type { CommandContext } from './command-context.ts'
import type { ExportFlags } from './export.ts'
import { FILE_FORMATS } from './file-format.ts'
import type { ImportFlags } from './import.ts'

/** `import` and `export`. */
export function addTransferCommands(program: Command, { environment, run }: CommandContext): void {
  const format = () =>
    new Option('--format <format>', 'how it is written, where the name does not tell').choices(
      FILE_FORMATS,
    )

  program
    .command('import')
    .description('bring in users from a file of NDJSON or CSV')
    .argument('<file>', 'the file, or - for standard input')
    .addOption(format())
    .addOption(
      new Option('--on-conflict <policy>', 'what to do where an e-mail or id is there already')
        .choices(CONFLICT_POLICIES)
        .default('fail'),
    )
    .option('--rejects <file>', 'keep what is refused, as NDJSON of line and errors')
    .option('--resume', 'go on where an interrupted import of this file ended')
    .option('--dry-run', 'tell what would become of it, and change nothing')
    .addHelpText('after', IMPORT_HELP)
    .action((file: string, flags: ImportFlags) =>
      run(async () => {
        const { importUsers } = await import('./import.ts')
        return importUsers(environment, { ...flags, file })
      }),
    )

  const exportCommand = program
    .command('export')
    .description('write users to a file as NDJSON or CSV')
    .argument('[file]', 'the file, or - for standard output', '-')
    .addOption(format())
    .option('--with-digests', 'the digests of the passwords as well')
    .option('--sort <field>', 'id, name, email, created_at or updated_at; -FIELD descending')
  for (const name of ['email', 'name']) {
    exportCommand.option(`--${name} <text>`, `only with this ${name}, without regard to case`)
  }
  for (const name of ['created', 'updated']) {
    exportCommand
      .option(`--${name}-after <instant>`, `only ${name} after this, such as 2026-01-31T12:00:00Z`)
      .option(`--${name}-before <instant>`, `only ${name} before this`)
  }
  exportCommand.action((file: string, flags: ExportFlags) =>
    run(async () => {
      const { exportUsers } = await import('./export.ts')
      return exportUsers(environment, { ...flags, file })
    }),
  )
}

const IMPORT_HELP = `
Fields are name, email, password or password_digest (Argon2, bcrypt or scrypt), and id, created_at and updated_at, which
are taken as they are where they are given. In CSV the first line names them. Other fields are passed over.`
