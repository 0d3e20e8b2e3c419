import { Bans } from './bans.tsx'
import { Charts } from './charts.tsx'
import { Header, type HeaderProps, placeOf } from './header.tsx'
import { Errors, Refused } from './incidents.tsx'
import { Limits } from './limits.tsx'
import type { PanelProps } from './panel.tsx'
import { Database, Keys, Process, Routes, Webhooks } from './panels.tsx'
import { Tiles } from './tiles.tsx'
import { Users } from './users.tsx'

export interface PageProps extends HeaderProps {
  /** What happened just now; empty for nothing. */
  readonly message: string
}

export function Page({ view, connection, message, actions, hash }: PageProps) {
  const { isUsers, item } = placeOf(hash)
  const isLocked = connection.kind === 'locked'
  return (
    <div class={connection.kind}>
      <Header {...{ connection, view, actions, hash }} />
      {(isLocked || view === undefined) && (
        <main class="faint">{isLocked ? 'Give the token above.' : 'Waiting for the service…'}</main>
      )}
      {view && isUsers && (
        <div hidden={isLocked}>
          <Users {...{ actions, item, isLocked }} now={Date.parse(view.status.now)} />
        </div>
      )}
      {view && !isUsers && !isLocked && <Operations {...{ view, actions }} />}
      <p class="message" id="message" role="status">
        {message !== '' && message}
      </p>
    </div>
  )
}

function Operations({ view, actions }: PanelProps) {
  return (
    <main>
      <Tiles view={view} />
      <Charts view={view} />
      <div class="panels">
        <Limits {...{ view, actions }} />
        <Refused view={view} />
        <Errors {...{ view, actions }} />
        <Bans {...{ view, actions }} />
        <Routes view={view} />
        <Process view={view} />
        <Database view={view} />
        <Keys view={view} />
        <Webhooks view={view} />
      </div>
    </main>
  )
}
