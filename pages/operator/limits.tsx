import { useState } from 'preact/hooks'
import type { RuleStatus } from '../../src/ops/management/service-status.ts'
import { formatCount } from './format.ts'
import { Panel, type PanelProps, type View } from './panel.tsx'
import { type Reloaded, reloadLimits } from './service.ts'
import { type Column, numbers, Table } from './table.tsx'

export const nameRule = ({ type, rule, dryRun }: Partial<RuleStatus>) => (
  <>
    {rule} <span class="faint">{dryRun ? `${type}, dry run` : type}</span>
  </>
)

const COLUMNS: readonly Column<RuleStatus>[] = [
  { label: 'Rule', kind: 'name', cell: nameRule },
  numbers('Counted', ({ counted }) => formatCount(counted)),
  numbers('Passed', ({ passed }) => formatCount(passed)),
  numbers('Refused', ({ refused }) => formatCount(refused)),
  numbers('Would refuse', ({ would_refuse }) => formatCount(would_refuse)),
]

/** What the reload of the file led to, and the rules or mistakes. */
interface Answer {
  readonly text: string
  readonly lines: readonly string[]
}

/** The rules in force with what they did, and the button that puts the file in force again. */
export function Limits({ view, actions }: PanelProps) {
  const [answer, setAnswer] = useState<Answer>()

  async function reload(): Promise<void> {
    try {
      setAnswer(describeReload(await reloadLimits()))
    } catch (error) {
      const { message: text, details: lines } = actions.explain(error)
      setAnswer({ text, lines })
    }
    actions.refresh()
  }

  return (
    <Panel name="limits" title="Limits" note={describeStore(view)}>
      <button type="button" onClick={reload}>
        Reload the file
      </button>
      <div id="reload-answer" role="status">
        {answer?.text}
        {answer?.lines.map(line => (
          <p key={line}>{line}</p>
        ))}
      </div>
      <Table
        id="limits"
        columns={COLUMNS}
        rows={view.status.limits.rules}
        keyOf={({ type, rule, dryRun }) => `${type} ${rule} ${dryRun}`}
        empty="No rules: no request is limited."
      />
    </Panel>
  )
}

function describeStore({ status: { limits } }: View): string {
  const { store, up } = limits
  if (store === 'none') return ''
  return up ? `counted in ${store}` : `${store} is down: the service counts by itself`
}

function describeReload({ reloaded, message, came, changed, went }: Reloaded): Answer {
  const lines = [
    ...(came ?? []).map(rule => `new: ${rule}`),
    ...(changed ?? []).map(rule => `changed: ${rule}`),
    ...(went ?? []).map(rule => `gone: ${rule}`),
  ]
  const differs = lines.length === 0 ? ' No rule differs.' : ''
  const text = reloaded ? `Reloaded.${differs}` : `${message ?? 'Nothing was reloaded'}.`
  return { text, lines }
}
