// The tables of bench:scale, bench:search and bench:transfer.
import { describeRun, grouped, table } from './markdown.mjs'

/** By the number of users: `columns` with `fillSeconds`, `bytes`, and `ms` for each kind of request. */
export function scaleTable({ run, columns }) {
  const names = Object.keys(columns[0].ms)
  return [
    `${describeRun(run)}:`,
    table(
      ['ms, median', ...columns.map(({ users }) => grouped(users))],
      [
        ['fill, s', ...columns.map(column => column.fillSeconds.toFixed(1))],
        ['database, MB', ...columns.map(column => inMb(column.bytes))],
        ...names.map(name => [name, ...columns.map(({ ms }) => ms[name]?.toFixed(2) ?? '')]),
        ...(columns.every(({ deepRatio }) => deepRatio !== undefined)
          ? [['deep page ÷ first page, at most', ...columns.map(row => row.deepRatio.toFixed(2))]]
          : []),
      ],
    ),
  ].join('\n\n')
}

/** Lists with `q`: `columns` with the time and the size of the index, and the `ms` of lists as median and p99. */
export function searchTable({ run, columns }) {
  const names = Object.keys(columns[0].ms)
  const times = cell => cell?.map(ms => ms.toFixed(2)).join(', ') ?? ''
  return [
    `${describeRun(run)}:`,
    table(
      ['median, p99 in ms', ...columns.map(({ users }) => grouped(users))],
      [
        ['index all users, s', ...columns.map(column => column.indexSeconds.toFixed(1))],
        [
          'database without and with the index, MB',
          ...columns.map(({ plainBytes, bytes }) => `${inMb(plainBytes)}, ${inMb(bytes)}`),
        ],
        ...names.map(name => [name, ...columns.map(({ ms }) => times(ms[name]))]),
      ],
    ),
  ].join('\n\n')
}

/** What the index of words adds to a create and to an import. */
export function wordsTable({ run, makeMicros, create, imported }) {
  const seconds = value => value.toFixed(2)
  return [
    `${describeRun(run)}. Medians of ${run.rounds} alternating rounds:`,
    table(
      ['', 'with', 'without', 'with ÷ without'],
      [
        [
          'a create over HTTP by 50 clients, CPU µs',
          create.withMicros.toFixed(1),
          create.withoutMicros.toFixed(1),
          (create.withMicros / create.withoutMicros).toFixed(2),
        ],
        [
          `an import of ${grouped(imported.users)} users, s`,
          seconds(imported.withSeconds),
          seconds(imported.withoutSeconds),
          (imported.withSeconds / imported.withoutSeconds).toFixed(2),
        ],
      ],
    ),
    `Both sides include making the words of a user from name and e-mail, which takes ${makeMicros.toFixed(1)} µs.`,
  ].join('\n\n')
}

/** Imports, exports, backups: `steps` with `seconds`, and `peakMb` where it was measured. */
export function transferTable({ run, users, bytes, steps }) {
  return [
    `${describeRun(run)}; ${grouped(users)} users, ${inMb(bytes)} MB of NDJSON:`,
    table(
      ['', 's', 'users/s', 'peak memory, MB'],
      steps.map(({ what, seconds, peakMb }) => [
        what,
        seconds.toFixed(1),
        grouped(users / seconds),
        peakMb ?? '',
      ]),
    ),
  ].join('\n\n')
}

function inMb(bytes) {
  return Math.round(bytes / 1e6)
}
