import { formatCount, formatSpan } from './format.ts'
import { nameRule } from './limits.tsx'
import { Panel, type PanelProps, type ViewProps } from './panel.tsx'
import { nameRoute } from './panels.tsx'
import { numbers, Table } from './table.tsx'

/** The clients that each rule refused most, those of the rule with the most first. */
export function Refused({ view }: ViewProps) {
  const rows = view.status.limits.refused
    .map(({ clients, ...rule }) => clients.map(client => ({ ...rule, ...client })))
    .sort(([one], [other]) => (other?.refused ?? 0) - (one?.refused ?? 0))
    .flat()
  return (
    <Panel name="refused" title="Refused most" note="in the last 15 minutes">
      <Table
        id="refused"
        columns={[
          { label: 'Client', kind: 'name', cell: ({ client }) => client },
          { label: 'Rule', kind: 'text', cell: nameRule },
          numbers<(typeof rows)[number]>('Refused', ({ refused }) => formatCount(refused)),
        ]}
        rows={rows}
        keyOf={({ type, rule, client }) => JSON.stringify([type, rule, client])}
        empty="No client was refused by a rule."
      />
    </Panel>
  )
}

const isFault = ({ status }: { readonly status: number }) => Number(status >= 500)

/** The newest errors, faults of the service first, with the ids under which the log has more. */
export function Errors({ view, actions }: PanelProps) {
  const { errors, now } = view.status

  async function copy(id: string): Promise<void> {
    // Browsers have it on localhost and over TLS only.
    const copying = navigator.clipboard?.writeText(id) ?? Promise.reject()
    const isCopied = await copying.then(() => true).catch(() => false)
    actions.notify(isCopied ? `Copied ${id}` : 'The browser does not let this page copy.')
  }

  return (
    <Panel name="errors" title="Errors" note="the newest of each reason">
      <Table
        id="errors"
        columns={[
          {
            label: 'Answer',
            kind: 'name',
            cell: error => (
              <span
                class={isFault(error) ? 'bad' : ''}
              >{`${error.status} ${error.reason ?? ''}`}</span>
            ),
          },
          { label: 'Request', kind: 'text', cell: nameRoute },
          numbers<(typeof errors)[number]>('Ago', ({ at }) =>
            formatSpan(Date.parse(now) - Date.parse(at)),
          ),
          {
            label: 'Request id',
            kind: 'text',
            cell: ({ request_id: id }) => (
              <button type="button" class="id" title="Copy" onClick={() => copy(id)}>
                {id}
              </button>
            ),
          },
        ]}
        rows={errors.toSorted((one, other) => isFault(other) - isFault(one))}
        keyOf={({ at, request_id }) => `${at} ${request_id}`}
        empty="No errors since the start."
      />
    </Panel>
  )
}
