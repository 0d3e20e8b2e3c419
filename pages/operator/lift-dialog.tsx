import { useState } from 'preact/hooks'
import { Dialog, Wrong } from './dialog.tsx'
import { formatMoment, formatSpan } from './format.ts'
import type { PanelProps } from './page.tsx'
import { Facts } from './panel.tsx'
import { type Ban, liftBan } from './service.ts'

export interface LiftProps extends Pick<PanelProps, 'actions'> {
  readonly ban: Ban
  /** The time of the service, in milliseconds since the epoch. */
  readonly now: number
  readonly onLifted: () => void
  readonly onClose: () => void
}

/** The dialog that lifts a ban. */
export function LiftDialog({ ban, now, actions, onLifted, onClose }: LiftProps) {
  const [error, setError] = useState<string>()
  const ends = Date.parse(ban.ends_at)

  async function lift(): Promise<boolean> {
    try {
      const wasInForce = await liftBan(ban)
      const which = `the ban of ${ban.client} by ${ban.rule}`
      actions.notify(wasInForce ? `Lifted ${which}.` : `When lifted, ${which} had ended.`)
      onLifted()
      return true
    } catch (problem) {
      setError(actions.explain(problem))
      return false
    }
  }

  const props = { id: 'lift-dialog', title: 'Lift this ban?', action: 'Lift the ban' }
  return (
    <Dialog {...props} isDanger onSubmit={lift} onClose={onClose}>
      <Facts
        id="lift-facts"
        facts={[
          ['Client', ban.client],
          ['Rule', ban.rule],
          ['Ends', `${formatMoment(ends, now)}, in ${formatSpan(ends - now)}`],
        ]}
      />
      <Wrong id="lift-error" text={error} />
    </Dialog>
  )
}
